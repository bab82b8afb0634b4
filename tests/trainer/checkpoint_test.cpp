// SPDX-License-Identifier: MIT
#include "trainer/run/checkpoint.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "tests/core/temporary_folder.h"

namespace dragonn::trainer::testing {
namespace {

namespace fs = std::filesystem;
using dragonn::test::TemporaryFolder;

/// Saves checkpoints of two ranks after these steps.
void save(const fs::path& folder, const std::vector<std::uint64_t>& steps) {
  comm::run_local(2, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    for (const std::uint64_t step : steps) {
      CheckpointStore(folder).save(communicator, step, [&](Archive*, Archive& rank) { rank.put("step", step); });
    }
  });
}

/// A way to damage a checkpoint, and the words that tell it.
struct Damage {
  const char* words;
  std::function<void(const fs::path& checkpoint)> apply;
};

Damage other_done(const char* words, const char* text) {
  return {words, [text](const fs::path& at) { write_file_atomically(at / "DONE", std::string_view(text)); }};
}

std::vector<Damage> damages() {
  const auto no_done = [](const fs::path& at) { fs::remove(at / "DONE"); };
  return {
      {"no such file: ", no_done},
      other_done("DONE is empty", ""),
      other_done("DONE is not what a save writes", "Step 3\nworkers 2\ntoken 0123456789abcdef\n"),
      other_done("DONE is not what a save writes", "step 3\nworkers 2\ntoken 01234567"),
      other_done("DONE names step 2", "step 2\nworkers 2\ntoken 0123456789abcdef\n"),
      {"DONE is longer than what a save writes", [](const fs::path& at) { fs::resize_file(at / "DONE", 1ULL << 40); }},
      {"DONE is no regular file, but a folder",
       [=](const fs::path& at) {
         no_done(at);
         fs::create_directory(at / "DONE");
       }},
      {"DONE is no regular file",
       [=](const fs::path& at) {
         no_done(at);
         CHECK(::mkfifo((at / "DONE").c_str(), 0600) == 0);
       }},
      {"no such file: ",
       [](const fs::path& at) {
         fs::remove_all(at);
         fs::create_directory(at);
       }},
  };
}

void write_notes(const fs::path& folder) {
  fs::create_directories(folder);
  write_file_atomically(folder / "notes", std::string_view("a user's own"));
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("files of two ranks or of two saves are not taken for a checkpoint") {
    const TemporaryFolder folder;
    save(folder.path(), {1, 2});
    const fs::path first = folder / "step-00000001", second = folder / "step-00000002";
    CHECK(CheckpointStore::read_rank(second, 1).get<std::uint64_t>("step") == 2);

    fs::copy_file(second / "rank-0000.safetensors", second / "rank-0001.safetensors",
                  fs::copy_options::overwrite_existing);
    CHECK_THROWS_WITH_AS(CheckpointStore::read_rank(second, 1),
                         doctest::Contains("rank-0001.safetensors was saved by rank 0"), DataError);
    fs::copy_file(first / "rank-0001.safetensors", second / "rank-0001.safetensors",
                  fs::copy_options::overwrite_existing);
    for (const char* part : {"rank-0001.safetensors belongs to 'step 1 workers 2", "DONE to 'step 2 workers 2"}) {
      CHECK_THROWS_WITH_AS(CheckpointStore::read_rank(second, 1), doctest::Contains(part), DataError);
    }

    // The same step, saved twice.
    const TemporaryFolder again;
    save(again.path(), {1});
    fs::copy_file(again / "step-00000001/model.safetensors", first / "model.safetensors",
                  fs::copy_options::overwrite_existing);
    CHECK_THROWS_WITH_AS(CheckpointStore::read_model(first), doctest::Contains("files of two checkpoints were mixed"),
                         DataError);
  }

  TEST_CASE("a folder that is not named after its step is neither the newest checkpoint nor removed") {
    const TemporaryFolder folder;
    const CheckpointStore store(folder.path());
    save(folder.path(), {1, 2, 3});
    fs::rename(folder / "step-00000001", folder / "keep-this");
    fs::rename(folder / "step-00000002", folder / "step-99999999");
    write_file_atomically(folder / "zzz", std::string_view("a file"));
    fs::create_directory(folder / "notes");
    write_file_atomically(folder / "notes/DONE", std::string_view("all of it"));
    CHECK(store.list() == std::vector{folder / "step-00000003"});
    const TemporaryFolder logs;
    log::set_level(log::Level::kWarning);
    log::set_file(logs / "log.txt");
    CHECK(store.newest() == folder / "step-00000003");
    log::set_file({});
    log::set_level(log::Level::kError);
    const std::string warnings = read_text_file(logs / "log.txt");
    for (const char* renamed : {"keep-this", "step-99999999"}) {
      CHECK(warnings.find((folder / renamed).string() + " is not named after the step") != std::string::npos);
    }
    CHECK(warnings.find("notes") == std::string::npos);
    CHECK(CheckpointStore::read_rank(folder / "keep-this", 1).get<std::uint64_t>("step") == 1);

    save(folder.path(), {4, 5});
    store.prune(1, std::nullopt);
    CHECK(store.list() == std::vector{folder / "step-00000005"});
    for (const char* kept : {"keep-this", "step-99999999", "notes", "zzz"}) CHECK(fs::exists(folder / kept));
  }

  TEST_CASE("a checkpoint takes the place of an earlier save of its step, and of no other") {
    const TemporaryFolder folder;
    save(folder.path(), {1, 2});
    fs::rename(folder / "step-00000001", folder / "step-00000003");
    save(folder.path(), {2, 3});
    CHECK(CheckpointStore(folder.path()).list() == std::vector{folder / "step-00000002", folder / "step-00000003"});
    CHECK(CheckpointStore::read_rank(folder / "step-00000003.kept-1", 0).get<std::uint64_t>("step") == 1);
  }

  TEST_CASE("a damaged checkpoint is not passed over for an older one") {
    for (const Damage& damage : damages()) {
      CAPTURE(damage.words);
      const TemporaryFolder folder;
      const CheckpointStore store(folder.path());
      save(folder.path(), {1, 2, 3});
      damage.apply(folder / "step-00000003");
      for (const char* words : {damage.words, "step-00000003/DONE", "older one: ", "step-00000002"}) {
        CHECK_THROWS_WITH_AS(store.newest(), doctest::Contains(words), DataError);
      }
      // Its place is needed: it is kept, and an older one that is damaged concerns nobody.
      save(folder.path(), {3, 4});
      CHECK(fs::exists(folder / "step-00000003.kept-1"));
      damage.apply(folder / "step-00000003");
      CHECK(store.newest() == folder / "step-00000004");
    }
  }

  TEST_CASE("a run does not begin anew where all checkpoints are damaged") {
    const TemporaryFolder folder;
    save(folder.path(), {1, 2});
    for (const char* name : {"step-00000001", "step-00000002"}) fs::resize_file(folder / name / "DONE", 0);
    for (const char* words :
         {"step-00000001/DONE is empty", "step-00000002/DONE is empty", "no older one is complete"}) {
      CHECK_THROWS_WITH_AS(CheckpointStore(folder.path()).newest(), doctest::Contains(words), DataError);
    }
    write_file_atomically(folder / "checkpoints", std::string_view("a file"));
    CHECK_THROWS_WITH_AS(CheckpointStore(folder / "checkpoints").newest(), doctest::Contains("is no folder"),
                         DataError);
    CHECK(CheckpointStore(folder / "none").newest().empty());
  }

  TEST_CASE("a save that was cut off is passed over, and removed by a later one") {
    const TemporaryFolder folder;
    const CheckpointStore store(folder.path());
    save(folder.path(), {1, 2});
    fs::rename(folder / "step-00000002", folder / "step-00000002.partial");
    fs::copy(folder / "step-00000001", folder / "step-00000007.old.partial");
    fs::remove(folder / "step-00000002.partial/DONE");
    write_file_atomically(folder / "step-00000002.partial/rank-0001.safetensors.tmp", std::string_view("begun"));
    CHECK(store.newest() == folder / "step-00000001");
    save(folder.path(), {3});
    store.prune(9, std::nullopt);
    CHECK(store.list() == std::vector{folder / "step-00000001", folder / "step-00000003"});
    CHECK_FALSE(fs::exists(folder / "step-00000002.partial"));
    CHECK_FALSE(fs::exists(folder / "step-00000007.old.partial"));
  }

  TEST_CASE("a save removes nothing of a user's own") {
    const TemporaryFolder folder;
    const CheckpointStore store(folder.path());
    save(folder.path(), {1, 2});
    for (const char* name : {"step-00000002", "step-00000003", "step-00000004.partial", "step-00000009.partial"}) {
      write_notes(folder / name);
    }
    write_file_atomically(folder / "step-00000005", std::string_view("a file"));
    fs::create_symlink("nowhere", folder / "step-00000006");
    CHECK(store.newest() == folder / "step-00000002");
    save(folder.path(), {2, 3, 4, 5, 6});
    for (const char* name : {"step-00000002", "step-00000003", "step-00000004.partial"}) {
      CHECK(fs::exists(folder / (std::string(name) + ".kept-1/notes")));
    }
    CHECK(read_text_file(folder / "step-00000005.kept-1") == "a file");
    CHECK(fs::is_symlink(folder / "step-00000006.kept-1"));
    CHECK(store.list().size() == 6);

    write_notes(folder / "step-00000001");
    store.prune(1, std::nullopt);
    CHECK(store.list() == std::vector{folder / "step-00000001", folder / "step-00000006"});
    CHECK(fs::exists(folder / "step-00000009.partial/notes"));
  }
}

}  // namespace dragonn::trainer::testing

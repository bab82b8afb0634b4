// SPDX-License-Identifier: MIT
#include "trainer/checkpoint.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/error.h"
#include "core/file.h"
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

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("files of two ranks or of two saves are not taken for a checkpoint") {
    const TemporaryFolder folder;
    save(folder.path(), {1, 2});
    const fs::path first = folder / "step-00000001", second = folder / "step-00000002";
    CHECK(CheckpointStore::read_rank(second, 1).get<std::uint64_t>("step") == 2);

    fs::copy_file(second / "rank-0000.bin", second / "rank-0001.bin", fs::copy_options::overwrite_existing);
    CHECK_THROWS_WITH_AS(CheckpointStore::read_rank(second, 1), doctest::Contains("rank-0001.bin was saved by rank 0"),
                         DataError);
    fs::copy_file(first / "rank-0001.bin", second / "rank-0001.bin", fs::copy_options::overwrite_existing);
    for (const char* part : {"rank-0001.bin belongs to 'step 1 workers 2", "DONE to 'step 2 workers 2"}) {
      CHECK_THROWS_WITH_AS(CheckpointStore::read_rank(second, 1), doctest::Contains(part), DataError);
    }

    // The same step, saved twice.
    const TemporaryFolder again;
    save(again.path(), {1});
    fs::copy_file(again / "step-00000001/model.bin", first / "model.bin", fs::copy_options::overwrite_existing);
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
    CHECK(store.renamed() == std::vector{folder / "keep-this", folder / "step-99999999"});
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
}

}  // namespace dragonn::trainer::testing

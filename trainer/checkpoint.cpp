// SPDX-License-Identifier: MIT
#include "trainer/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "core/error.h"
#include "core/fault_point.h"
#include "core/file.h"
#include "core/log.h"

namespace dragonn::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDone = "DONE";
constexpr const char* kModel = "model.bin";
constexpr const char* kWorldSize = "progress/world_size";
constexpr const char* kSave = "checkpoint/save";
constexpr const char* kRank = "checkpoint/rank";

std::string rank_file(int rank) {
  return fmt::format("rank-{:04}.bin", rank);
}

void make_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) throw SystemError(fmt::format("cannot create folder {}: {}", folder.string(), code.message()));
}

void remove_folder(const fs::path& folder) {
  std::error_code code;  // a checkpoint that cannot be removed costs space, not results
  fs::remove_all(folder, code);
}

/// Returns what all files of one save have in common, which is also the text of its DONE: step, workers, token.
std::string describe_save(std::uint64_t step, int workers) {
  std::random_device source;
  const std::uint64_t high = source();
  return fmt::format("step {}\nworkers {}\ntoken {:016x}\n", step, workers, (high << 32U) | source());
}

/// Returns a save's description in one line, for a message.
std::string in_one_line(std::string save) {
  while (save.ends_with('\n')) save.pop_back();
  std::ranges::replace(save, '\n', ' ');
  return save;
}

/// Returns the step in a folder's DONE; nothing if it has none, or one that this program did not write.
std::optional<std::uint64_t> done_step(const fs::path& folder) {
  std::error_code code;
  if (!fs::is_regular_file(folder / kDone, code)) return std::nullopt;
  unsigned long long step = 0;
  if (std::sscanf(read_text_file(folder / kDone).c_str(), "step %llu", &step) != 1) return std::nullopt;
  return step;
}

/// Reads an archive of a checkpoint. @throws DataError if it is of another save than the checkpoint's DONE says.
Archive read_of_save(const fs::path& checkpoint, const std::string& file) {
  Archive archive = Archive::read(checkpoint / file);
  const std::string done = read_text_file(checkpoint / kDone);
  // Checkpoints of earlier versions name the step in DONE and nothing else, and no save in their archives.
  const std::string expected = done.find("token") == std::string::npos ? "" : done;
  const std::string found = archive.contains(kSave) ? archive.get_text(kSave) : "";
  if (found == expected) return archive;
  const auto name = [](const std::string& save) {
    return save.empty() ? std::string("a save of an earlier version") : fmt::format("'{}'", in_one_line(save));
  };
  throw DataError(fmt::format("{} belongs to {}, and the checkpoint's {} to {}: files of two checkpoints were mixed",
                              (checkpoint / file).string(), name(found), kDone, name(expected)));
}

/// Returns the folders in `folder` that hold a complete checkpoint, by its step; `named` after it, or not.
std::vector<std::pair<std::uint64_t, fs::path>> complete_in(const fs::path& folder, bool named) {
  std::vector<std::pair<std::uint64_t, fs::path>> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".partial") continue;
    const auto step = done_step(entry.path());
    if (step && (entry.path().filename() == CheckpointStore::folder_name(*step)) == named) {
      found.emplace_back(*step, entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> paths_of(const std::vector<std::pair<std::uint64_t, fs::path>>& checkpoints) {
  std::vector<fs::path> paths;
  for (const auto& [step, path] : checkpoints) paths.push_back(path);
  return paths;
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::rename(from, to, code);
  if (code) throw SystemError(fmt::format("cannot rename {}: {}", from.string(), code.message()));
}

/// Makes room for a checkpoint: removes an earlier save of the same step, and renames what is another step's.
void make_way(const fs::path& folder, std::uint64_t step) {
  const auto other = done_step(folder);
  if (!other || *other == step) return remove_folder(folder);
  int number = 1;
  const auto kept = [&] { return fs::path(fmt::format("{}.kept-{}", folder.string(), number)); };
  while (fs::exists(kept())) ++number;
  log::warning(0, "{} holds the checkpoint of step {}: it is renamed to {}", folder.string(), *other, kept().string());
  rename_folder(folder, kept());
}

void require_complete(const fs::path& checkpoint) {
  if (!fs::is_directory(checkpoint)) throw ConfigError(fmt::format("no checkpoint folder: {}", checkpoint.string()));
  if (!done_step(checkpoint)) {
    throw ConfigError(fmt::format("{} is not a complete checkpoint (it has no {} file that names its step)",
                                  checkpoint.string(), kDone));
  }
}

}  // namespace

fs::path CheckpointStore::folder_name(std::uint64_t step) {
  return fmt::format("step-{:08}", step);
}

void CheckpointStore::save(comm::Communicator& communicator, std::uint64_t step,
                           const std::function<void(Archive* model, Archive& rank)>& fill) const {
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kCheckpoint);
  const int rank = communicator.rank();
  const fs::path final_folder = folder_ / folder_name(step);
  const fs::path partial = fs::path(final_folder.string() + ".partial");
  std::string save;
  try {
    comm::rank_zero_or_none(communicator, [&] {
      remove_folder(partial);
      make_folder(partial);
      save = describe_save(step, communicator.size());
    });
    communicator.broadcast_text(0, save);
    comm::all_ranks_or_none(communicator, [&] {
      Archive model, mine;
      fill(rank == 0 ? &model : nullptr, mine);
      mine.put_text(kSave, save);
      mine.put(kRank, static_cast<std::int64_t>(rank));
      mine.write(partial / rank_file(rank));
      if (rank != 0) return;
      model.put_text(kSave, save);
      model.put(kWorldSize, static_cast<std::int64_t>(communicator.size()));
      model.write(partial / kModel);
    });
    comm::rank_zero_or_none(communicator, [&] {
      fault_point("commit");
      write_file_atomically(partial / kDone, save);
      make_way(final_folder, step);
      rename_folder(partial, final_folder);
      sync_directory(folder_);
    });
  } catch (...) {
    if (rank == 0) remove_folder(partial);
    throw;
  }
}

void CheckpointStore::prune(std::int64_t keep, std::optional<std::uint64_t> best_step) const {
  const std::vector<fs::path> all = list();
  const std::size_t kept = static_cast<std::size_t>(std::max<std::int64_t>(keep, 1));
  for (std::size_t i = 0; i + kept < all.size(); ++i) {
    if (best_step && all[i].filename() == folder_name(*best_step)) continue;
    remove_folder(all[i]);
  }
}

std::vector<fs::path> CheckpointStore::list() const {
  return paths_of(complete_in(folder_, /*named=*/true));
}

std::vector<fs::path> CheckpointStore::renamed() const {
  return paths_of(complete_in(folder_, /*named=*/false));
}

Archive CheckpointStore::read_model(const fs::path& checkpoint) {
  require_complete(checkpoint);
  return read_of_save(checkpoint, kModel);
}

int CheckpointStore::workers(const Archive& model) {
  return static_cast<int>(model.get<std::int64_t>(kWorldSize));
}

Archive CheckpointStore::read_rank(const fs::path& checkpoint, int rank) {
  const fs::path file = checkpoint / rank_file(rank);
  if (std::error_code code; !fs::exists(file, code)) {
    throw DataError(fmt::format("{} is missing: the checkpoint has a file of each of its ranks", file.string()));
  }
  Archive archive = read_of_save(checkpoint, rank_file(rank));
  if (archive.contains(kRank) && archive.get<std::int64_t>(kRank) != rank) {
    throw DataError(fmt::format("{} was saved by rank {}: the files of two ranks were mixed", file.string(),
                                archive.get<std::int64_t>(kRank)));
  }
  return archive;
}

}  // namespace dragonn::trainer

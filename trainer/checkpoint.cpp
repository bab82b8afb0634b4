// SPDX-License-Identifier: MIT
#include "trainer/checkpoint.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "core/error.h"
#include "core/file.h"

namespace dragonn::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDone = "DONE";
constexpr const char* kModel = "model.bin";
constexpr const char* kWorldSize = "progress/world_size";

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

void require_complete(const fs::path& checkpoint) {
  if (!fs::is_directory(checkpoint)) throw ConfigError(fmt::format("no checkpoint folder: {}", checkpoint.string()));
  if (!fs::exists(checkpoint / kDone)) {
    throw ConfigError(fmt::format("{} is not a complete checkpoint (it has no {} file)", checkpoint.string(), kDone));
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
  try {
    comm::rank_zero_or_none(communicator, [&] {
      remove_folder(partial);
      make_folder(partial);
    });
    comm::all_ranks_or_none(communicator, [&] {
      Archive model, mine;
      fill(rank == 0 ? &model : nullptr, mine);
      mine.write(partial / rank_file(rank));
      if (rank != 0) return;
      model.put(kWorldSize, static_cast<std::int64_t>(communicator.size()));
      model.write(partial / kModel);
    });
    comm::rank_zero_or_none(communicator, [&] {
      write_file_atomically(partial / kDone, fmt::format("step {}\n", step));
      remove_folder(final_folder);
      std::error_code code;
      fs::rename(partial, final_folder, code);
      if (code) throw SystemError(fmt::format("cannot rename {}: {}", partial.string(), code.message()));
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
  std::vector<fs::path> result;
  if (!fs::is_directory(folder_)) return result;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().extension() != ".partial" && fs::exists(entry.path() / kDone)) result.push_back(entry.path());
  }
  std::ranges::sort(result);
  return result;
}

Archive CheckpointStore::read_model(const fs::path& checkpoint) {
  require_complete(checkpoint);
  return Archive::read(checkpoint / kModel);
}

CheckpointFiles CheckpointStore::read(const fs::path& checkpoint, int rank, int world_size) {
  CheckpointFiles files;
  files.model = read_model(checkpoint);
  const auto saved = files.model.get<std::int64_t>(kWorldSize);
  if (saved != world_size) {
    throw ConfigError(fmt::format(
        "{} was saved by {} workers and holds the residuals of {}; this run has {} workers: expected --workers {}",
        checkpoint.string(), saved, saved, world_size, saved));
  }
  files.rank = Archive::read(checkpoint / rank_file(rank));
  return files;
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/run/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agreement.h"
#include "core/error.h"
#include "core/fault_point.h"
#include "core/file.h"
#include "core/log.h"
#include "trainer/config/exchange_config.h"

namespace dragonn::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr const char* kDone = "DONE";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kPartial = ".partial";
constexpr const char* kOld = ".old";
constexpr const char* kWorldSize = "progress/world_size";
constexpr const char* kSave = "checkpoint/save";
constexpr const char* kRank = "checkpoint/rank";

std::string rank_file(int rank) {
  return fmt::format("rank-{:04}.safetensors", rank);
}

void remove_folder(const fs::path& folder) {
  std::error_code code;  // a checkpoint that cannot be removed costs space, not results
  fs::remove_all(folder, code);
}

/// Returns what all files of one save have in common, which is also the text of its DONE: step, workers, token.
std::string describe_save(std::uint64_t step, int workers, std::uint64_t token) {
  return fmt::format("step {}\nworkers {}\ntoken {:016x}\n", step, workers, token);
}

/// The step in a folder's DONE; nothing if it is missing, or not what a save writes.
struct Done {
  std::optional<std::uint64_t> step = {};
  std::string fault = {};  ///< why there is no step
};

/// Reads a folder's DONE. What is no regular file is not waited for.
Done read_done(const fs::path& folder) {
  constexpr std::uintmax_t kLongest = 200;
  const fs::path file = folder / kDone;
  std::error_code code;
  if (fs::is_regular_file(file, code) && fs::file_size(file, code) > kLongest)
    return {.fault = fmt::format("{} is longer than what a save writes", file.string())};
  std::string text;
  try {
    text = read_text_file(file);
  } catch (const Error& error) {
    return {.fault = error.what()};
  }
  unsigned long long step = 0, token = 0;
  int workers = 0;
  const int fields = std::sscanf(text.c_str(), "step %llu workers %d token %llx", &step, &workers, &token);
  // Checkpoints of earlier versions name the step in DONE and nothing else.
  const bool is_whole = text == describe_save(step, workers, token) || text == fmt::format("step {}\n", step);
  if (fields >= 1 && is_whole) return {.step = step};
  return {.fault = fmt::format("{} {}", file.string(), text.empty() ? "is empty" : "is not what a save writes")};
}

bool is_there(const fs::path& path) {
  std::error_code code;
  return fs::exists(fs::symlink_status(path, code));
}

/// Reads an archive of a checkpoint. @throws DataError if it is of another save than the checkpoint's DONE says.
Archive read_of_save(const fs::path& checkpoint, const std::string& file) {
  const fs::path path = checkpoint / file;
  // Before archives were safetensors, their names ended with .bin: reading one says which version reads it.
  const fs::path earlier = fs::path(path).replace_extension(".bin");
  Archive archive = Archive::read(!is_there(path) && is_there(earlier) ? earlier : path);
  const std::string expected = read_text_file(checkpoint / kDone);
  const std::string found = archive.contains(kSave) ? archive.get_text(kSave) : "no save";
  if (found == expected) return archive;
  const auto in_one_line = [](std::string save) {
    while (save.ends_with('\n')) save.pop_back();
    std::ranges::replace(save, '\n', ' ');
    return save;
  };
  throw DataError(
      fmt::format("{} belongs to '{}', and the checkpoint's {} to '{}': files of two checkpoints were mixed",
                  path.string(), in_one_line(found), kDone, in_one_line(expected)));
}

/// Returns the step in a folder's name; nothing for a name that no save gives.
std::optional<std::uint64_t> named_step(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const std::size_t digits = std::min(name.size(), kPrefix.size());
  std::uint64_t step = 0;
  std::from_chars(name.data() + digits, name.data() + name.size(), step);
  return name == CheckpointStore::folder_name(step) ? std::optional(step) : std::nullopt;
}

/// Returns whether a save writes files of this name, be it for a moment.
bool is_named_by_save(const fs::path& file) {
  const std::string name = (file.extension() == ".tmp" ? file.stem() : file.filename()).string();
  int rank = -1;
  return name == kDone || name == kModel ||
         (std::sscanf(name.c_str(), "rank-%d.", &rank) == 1 && rank >= 0 && name == rank_file(rank));
}

/// Returns what is in a folder; nothing if it is none. @throws SystemError if it cannot be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code code;
  if (!fs::is_directory(folder, code)) return entries;
  const fs::directory_iterator end;
  for (fs::directory_iterator entry(folder, code); !code && entry != end; entry.increment(code))
    entries.push_back(entry->path());
  if (code) throw SystemError(fmt::format("cannot read folder {}: {}", folder.string(), code.message()));
  std::ranges::sort(entries);
  return entries;
}

/// Returns whether a folder holds files of a save, finished or not, and nothing else.
bool is_own(const fs::path& folder) {
  std::error_code code;
  return fs::is_directory(fs::symlink_status(folder, code)) &&
         std::ranges::all_of(entries_of(folder), [&](const fs::path& file) {
           return is_named_by_save(file) && !fs::is_directory(file, code);
         });
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::rename(from, to, code);
  if (code) throw SystemError(fmt::format("cannot rename {}: {}", from.string(), code.message()));
}

/// Renames what no save of the step has made, or somebody has added to.
void keep_aside(const fs::path& path, std::uint64_t step) {
  int number = 1;
  const auto kept = [&] { return fs::path(fmt::format("{}.kept-{}", path.string(), number)); };
  while (is_there(kept())) ++number;
  log::warning(0, "{} is not, or not only, a save of step {}: it is renamed to {}", path.string(), step,
               kept().string());
  rename_folder(path, kept());
}

/// Frees the name of an unfinished save.
void clear_partial(const fs::path& partial, std::uint64_t step) {
  if (is_own(partial)) return remove_folder(partial);
  if (is_there(partial)) keep_aside(partial, step);
}

/// Renames a checkpoint, so that it is complete or gone, however long its removal takes. Returns the name under which
/// it is to be removed.
fs::path retire(const fs::path& checkpoint, std::uint64_t step) {
  const fs::path old = checkpoint.string() + kOld + kPartial;
  clear_partial(old, step);
  rename_folder(checkpoint, old);
  return old;
}

/// Puts a finished save in its place, for an earlier save of the same step.
void put_in_place(const fs::path& partial, const fs::path& folder, std::uint64_t step) {
  fs::path old;
  if (read_done(folder).step == step && is_own(folder)) {
    old = retire(folder, step);
  } else if (is_there(folder)) {
    keep_aside(folder, step);
  }
  try {
    rename_folder(partial, folder);
  } catch (const SystemError&) {
    if (!old.empty()) rename_folder(old, folder);
    throw;
  }
  if (!old.empty()) remove_folder(old);
}

enum class Kind {
  kOther,     ///< nothing of ours
  kComplete,  ///< a checkpoint that is named after its step
  kRenamed,   ///< a checkpoint under another name
  kForeign,   ///< named as a checkpoint, and holds no file of one
  kDamaged,   ///< named as a checkpoint, and holds what is left of one
};

/// Judges what a path in the folder of checkpoints is (see CheckpointStore), and the reason why it is damaged.
std::pair<Kind, std::string> judge(const fs::path& folder) {
  if (folder.extension() == kPartial) return {Kind::kOther, ""};
  const auto named = named_step(folder);
  const Done done = read_done(folder);
  if (!named) return {done.step ? Kind::kRenamed : Kind::kOther, ""};
  if (done.step == named) return {Kind::kComplete, ""};
  if (done.step) {
    try {
      read_of_save(folder, kModel);
      return {Kind::kRenamed, ""};
    } catch (const Error&) {  // DONE alone is damaged
      return {Kind::kDamaged, fmt::format("{} names step {}", (folder / kDone).string(), *done.step)};
    }
  }
  const std::vector<fs::path> entries = entries_of(folder);
  std::error_code code;
  const bool is_emptied = entries.empty() && fs::is_directory(folder, code);
  if (is_emptied || std::ranges::any_of(entries, is_named_by_save)) return {Kind::kDamaged, done.fault};
  return {is_there(folder) ? Kind::kForeign : Kind::kOther, ""};
}

}  // namespace

fs::path CheckpointStore::folder_name(std::uint64_t step) {
  return fmt::format("{}{:08}", kPrefix, step);
}

void CheckpointStore::save(comm::Communicator& communicator, std::uint64_t step,
                           const std::function<void(Archive* model, Archive& rank)>& fill) const {
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kCheckpoint);
  const int rank = communicator.rank();
  communicator.broadcast_value(0, step);
  const fs::path final_folder = folder_ / folder_name(step);
  const fs::path partial = fs::path(final_folder.string() + kPartial);
  std::string save;  // once the folder is made
  try {
    comm::rank_zero_or_none(communicator, [&] {
      clear_partial(partial, step);
      std::error_code code;
      fs::create_directories(partial, code);
      if (code) throw SystemError(fmt::format("cannot create folder {}: {}", partial.string(), code.message()));
      std::random_device source;
      const std::uint64_t high = source();
      save = describe_save(step, communicator.size(), high << 32U | source());
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
      put_in_place(partial, final_folder, step);
      sync_directory(folder_);
    });
  } catch (...) {
    if (rank == 0 && !save.empty()) remove_folder(partial);
    throw;
  }
}

void CheckpointStore::prune(std::int64_t keep, std::optional<std::uint64_t> best_step) const {
  // What cannot be removed costs space, not results.
  try {
    const std::vector<fs::path> all = list();
    const std::size_t kept = static_cast<std::size_t>(std::max<std::int64_t>(keep, 1));
    for (std::size_t i = 0; i + kept < all.size(); ++i) {
      const std::uint64_t step = *named_step(all[i]);
      if (step != best_step && is_own(all[i])) remove_folder(retire(all[i], step));
    }
    for (const fs::path& entry : entries_of(folder_)) {
      if (entry.extension() != kPartial) continue;
      const fs::path name = entry.stem().extension() == kOld ? entry.stem().stem() : entry.stem();
      if (named_step(name) && is_own(entry)) remove_folder(entry);
    }
  } catch (const SystemError& error) {
    log::warning(0, "an old checkpoint stays: {}", error.what());
  }
}

std::vector<fs::path> CheckpointStore::list() const {
  std::vector<fs::path> found = entries_of(folder_);
  std::erase_if(found, [](const fs::path& entry) {
    const auto step = named_step(entry);
    return !step || read_done(entry).step != step;
  });
  std::ranges::sort(found, {}, [](const fs::path& entry) { return *named_step(entry); });
  return found;
}

fs::path CheckpointStore::newest() const {
  if (is_there(folder_) && !fs::is_directory(folder_))
    throw DataError(fmt::format("{} is no folder: the run's checkpoints should be in it", folder_.string()));
  const std::vector<fs::path> complete = list();
  const fs::path newest = complete.empty() ? "" : complete.back();
  std::vector<std::string> damages;
  for (const fs::path& entry : entries_of(folder_)) {
    const auto [kind, reason] = judge(entry);
    if (kind == Kind::kRenamed) {
      constexpr const char* kRule = "it is left alone; give its path to resume from it";
      log::warning(0, "{} is not named after the step of its checkpoint: {}", entry.string(), kRule);
    } else if (kind == Kind::kForeign) {
      log::warning(0, "{} is named as a checkpoint and holds none: it is left alone", entry.string());
    } else if (kind == Kind::kDamaged && (newest.empty() || *named_step(entry) > *named_step(newest))) {
      // A run that saves there may have replaced or removed it meanwhile, which is no damage.
      if (judge(entry).first == Kind::kDamaged) damages.push_back(reason);
    }
  }
  if (damages.empty()) return newest;
  throw DataError(fmt::format(
      "{}: {}; {}", damages.size() == 1 ? "a damaged checkpoint" : "damaged checkpoints", fmt::join(damages, "; "),
      newest.empty() ? "no older one is complete: remove what is damaged to go on without it"
                     : fmt::format("remove what is damaged, or give the path of an older one: {}", newest.string())));
}

void CheckpointStore::require_complete(const fs::path& checkpoint) {
  require(fs::is_directory(checkpoint), "no checkpoint folder: {}", checkpoint.string());
  const Done done = read_done(checkpoint);
  require(done.step.has_value(), "{} is not a complete checkpoint: {}", checkpoint.string(), done.fault);
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
  if (!is_there(file)) {
    throw DataError(fmt::format("{} is missing: the checkpoint has a file of each of its ranks", file.string()));
  }
  Archive archive = read_of_save(checkpoint, rank_file(rank));
  const auto saved_by = archive.get<std::int64_t>(kRank);
  if (saved_by == rank) return archive;
  throw DataError(fmt::format("{} was saved by rank {}: the files of two ranks were mixed", file.string(), saved_by));
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "comm/elastic/journal.h"

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "comm/tcp/rendezvous.h"
#include "core/error.h"
#include "core/file.h"

namespace dragonn::comm {
namespace {

/// Longer than any entry: 4096 members of 40 characters.
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

}  // namespace

Journal::Journal(std::filesystem::path path) : path_(std::move(path)), owner_(random_token()) {
  // The first generation is a bad moment to find that out.
  const std::filesystem::path folder = std::filesystem::absolute(path_).parent_path();
  if (::access(folder.c_str(), W_OK) != 0)
    throw ConfigError(fmt::format("the journal {} cannot be written: {}: {}", path_.string(), folder.string(),
                                  std::error_code(errno, std::generic_category()).message()));
}

std::optional<JournalEntry> Journal::read() const {
  if (!std::filesystem::exists(path_)) return std::nullopt;
  std::string text = read_text_file(path_, kMaxBytes);
  std::optional<JournalEntry> entry;
  if (text.ends_with('\n')) {
    text.pop_back();
    entry = JournalEntry::parse(text);
  }
  if (!entry)
    throw DataError(
        fmt::format("{}: no journal of a coordinator: expected one line, \"journal ...\"; a run begins "
                    "without the file",
                    path_.string()));
  return entry;
}

void Journal::write(JournalEntry entry) {
  if (!is_mine())
    throw CommError(fmt::format("{}: another coordinator has taken up the run: this one ends", path_.string()));
  take_over(std::move(entry));
}

void Journal::take_over(JournalEntry entry) {
  entry.owner = owner_;
  write_file_atomically(path_, std::string_view(entry.text() + "\n"));
  has_written_ = true;
}

void Journal::remove() noexcept {
  try {
    std::error_code ignored;
    if (has_written_ && is_mine()) std::filesystem::remove(path_, ignored);
  } catch (const std::exception&) {  // what cannot be read is another one's
  }
}

bool Journal::is_mine() const {
  const std::optional<JournalEntry> last = read();
  return last ? last->owner == owner_ : !has_written_;
}

}  // namespace dragonn::comm

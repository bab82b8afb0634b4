// SPDX-License-Identifier: MIT
/// Journal: the file of a coordinator from which one that is started again takes up the run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "comm/elastic/protocol.h"

namespace dragonn::comm {

/// A file with the last generation of a run. A coordinator writes it before anybody hears of that generation, and
/// removes it when the run is over. Whoever takes up a run writes it first: from then on the coordinator before can
/// decide nothing, should it be there still.
class Journal {
 public:
  /// @throws ConfigError if there is no folder for the file, or none that may be written.
  explicit Journal(std::filesystem::path path);

  /// Returns what a coordinator has left. @throws ConfigError, DataError naming the file if that is no journal.
  std::optional<JournalEntry> read() const;
  /// Replaces what is there, durably, under this coordinator's name. @throws CommError if another coordinator has
  /// written it since; SystemError.
  void write(JournalEntry entry);
  /// Takes over what another coordinator has left.
  void take_over(JournalEntry entry);
  /// The run is over. Does nothing if the file is another coordinator's.
  void remove() noexcept;

 private:
  bool is_mine() const;

  std::filesystem::path path_;
  std::uint64_t owner_;
  bool has_written_ = false;
};

}  // namespace dragonn::comm

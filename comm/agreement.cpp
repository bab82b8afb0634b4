// SPDX-License-Identifier: MIT
#include "comm/agreement.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace dragonn::comm {
namespace {

/// A rank's report: the exit code that its error calls for, 0 if there is none, and the error's message.
struct Report {
  std::uint64_t exit_code = 0;
  std::string message;
};

Report report_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    return {static_cast<std::uint64_t>(exit_code(failure)), failure.what()};
  }
}

}  // namespace

void throw_everywhere(Communicator& communicator, const std::exception_ptr& error, bool names_rank) {
  Report mine = report_of(error);
  std::vector<std::uint64_t> codes(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const std::uint64_t>(&mine.exit_code, 1), std::span<std::uint64_t>(codes));
  const auto failed = std::ranges::find_if(codes, [](std::uint64_t code) { return code != 0; });
  if (failed == codes.end()) return;
  const int rank = static_cast<int>(failed - codes.begin());
  // Another rank's word may be anything; cut to an int it could be the code of success.
  const int known_code = *failed == 2 ? 2 : 1;
  communicator.broadcast_text(rank, mine.message);
  const bool everywhere = std::ranges::none_of(codes, [](std::uint64_t code) { return code == 0; });
  if (everywhere || !names_rank) throw CollectiveError(mine.message, known_code);
  const std::string label = communicator.activity().label();  // that of all ranks
  const std::string place = label.empty() ? "" : fmt::format(", '{}'", label);
  throw CollectiveError(fmt::format("rank {}{}: {}", rank, place, mine.message), known_code);
}

}  // namespace dragonn::comm

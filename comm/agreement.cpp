// SPDX-License-Identifier: MIT
#include "comm/agreement.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

namespace dragonn::comm {

void throw_everywhere(Communicator& communicator, const std::exception_ptr& error, bool names_rank) {
  std::uint64_t code = 0;  // the exit code that this rank's error calls for
  std::string message;
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    code = static_cast<std::uint64_t>(exit_code(failure));
    message = failure.what();
  }
  std::vector<std::uint64_t> codes(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const std::uint64_t>(&code, 1), std::span<std::uint64_t>(codes));
  const auto failed = std::ranges::find_if(codes, [](std::uint64_t other) { return other != 0; });
  if (failed == codes.end()) return;
  const int rank = static_cast<int>(failed - codes.begin());
  // Another rank's word may be anything; cut to an int it could be the code of success.
  const int known_code = *failed == 2 ? 2 : 1;
  communicator.broadcast_text(rank, message);
  const bool everywhere = std::ranges::none_of(codes, [](std::uint64_t other) { return other == 0; });
  if (everywhere || !names_rank) throw CollectiveError(message, known_code);
  const std::string label = communicator.activity().label();  // that of all ranks
  const std::string place = label.empty() ? "" : fmt::format(", '{}'", label);
  throw CollectiveError(fmt::format("rank {}{}: {}", rank, place, message), known_code);
}

Moment latest_moment(Communicator& communicator) {
  const Moment mine = communicator.clock().moment();
  std::array<double, 2> latest{mine.seconds, mine.ideal};
  communicator.allreduce_max(std::span<double>(latest));
  return {latest[0], latest[1]};
}

void align(Communicator& communicator) {
  const ClockPause pause(communicator.clock());
  const ScopedPhase phase(communicator.traffic(), Phase::kMetrics);
  const Moment latest = latest_moment(communicator);
  communicator.barrier();
  communicator.clock().advance_to(latest);
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/sparse/counts.h"

#include <limits>

namespace dragonn::comm {

bool CountExchange::run(Communicator& communicator, std::size_t count, bool non_finite,
                        std::span<std::uint64_t> counts) {
  // Buckets have fewer than 2^32 - 1 elements, so that this is nobody's count.
  constexpr std::uint32_t kNonFinite = std::numeric_limits<std::uint32_t>::max();
  DRAGONN_CHECK(count < kNonFinite, "{} selected entries: a bucket holds fewer than {}", count, kNonFinite);
  const ScopedPhase phase(communicator.traffic(), Phase::kHeader);
  const std::uint32_t mine = non_finite ? kNonFinite : static_cast<std::uint32_t>(count);
  words_.resize(counts.size());
  communicator.allgather_values(std::span<const std::uint32_t>(&mine, 1), std::span<std::uint32_t>(words_));
  bool any = false;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const bool flagged = words_[rank] == kNonFinite;
    counts[rank] = flagged ? 0 : words_[rank];
    any = any || flagged;
  }
  return any;
}

}  // namespace dragonn::comm

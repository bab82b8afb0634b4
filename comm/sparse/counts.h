// SPDX-License-Identifier: MIT
/// The header of variable-size exchanges: how many entries each rank brings, and whether one saw NaN or infinity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace dragonn::comm {

/// Allgathers one word per rank (P-1 words sent), counted under Phase::kHeader.
class CountExchange {
 public:
  /// Collective. Afterwards counts[r] is what rank r brings. A rank that saw NaN or infinity says so in place of its
  /// count and brings nothing: counts[r] is 0.
  /// @param count less than 2^32 - 1.  @param counts one per rank, overwritten.  Returns whether any rank saw some.
  bool run(Communicator& communicator, std::size_t count, bool non_finite, std::span<std::uint64_t> counts);

 private:
  std::vector<std::uint32_t> words_;
};

}  // namespace dragonn::comm

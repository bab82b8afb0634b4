// SPDX-License-Identifier: MIT
/// Step agreement: the control bits that all ranks share in every step, in one small reduction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "exchange/buckets.h"

namespace dragonn::exchange {

/// A rank's report on a step and, once agreed on, the report of any rank.
struct StepWord {
  bool stop = false;  ///< a signal asked for the end of the run
  bool skip = false;  ///< the gradient is not finite, and the step is to be skipped; lost if there is a bucket
  /// The first bucket whose accumulated gradient was not finite.
  std::optional<std::size_t> non_finite_bucket = {};

  friend bool operator==(const StepWord&, const StepWord&) = default;
};

/// Collective. Returns `stop` and `skip` if some rank has them, and the lowest bucket of any. ceil(log2 P) messages of
/// 16 bytes, counted as control traffic.
StepWord reduce_step_word(comm::Communicator& communicator, const StepWord& mine);

/// Throws if the agreed word has a bucket.
/// @param word agreed on, so that all ranks throw or none does.
/// @param step from 1, as logs and metrics count.
/// @throws comm::CollectiveError naming step and bucket.
void check_finite(const StepWord& word, std::uint64_t step, const std::vector<Bucket>& buckets);

}  // namespace dragonn::exchange

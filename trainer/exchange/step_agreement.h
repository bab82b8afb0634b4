// SPDX-License-Identifier: MIT
/// Step agreement: the few bits of control that all ranks must share in every step, in one small reduction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "trainer/exchange/buckets.h"

namespace dragonn::trainer {

/// What a rank has to say in a step, and, once agreed on, what some rank has said.
struct StepWord {
  bool stop = false;  ///< a signal asked for the end of the run
  bool skip = false;  ///< the gradient is not finite, and the step is to be left out; lost if there is a bucket
  /// The first bucket whose accumulated gradient was not finite.
  std::optional<std::size_t> non_finite_bucket = {};

  friend bool operator==(const StepWord&, const StepWord&) = default;
};

/// Collective. `stop` and `skip` if some rank said so, and the lowest bucket of any. ceil(log2 P) messages of 16 bytes,
/// counted as control traffic.
StepWord agree(comm::Communicator& communicator, const StepWord& mine);

/// @param word agreed on, so that all ranks throw or none does.
/// @param step from 1, as logs and metrics count.
/// @throws comm::AgreedError naming step and bucket where the word has one.
void check_finite(const StepWord& word, std::uint64_t step, const std::vector<Bucket>& buckets);

}  // namespace dragonn::trainer

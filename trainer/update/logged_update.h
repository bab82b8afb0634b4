// SPDX-License-Identifier: MIT
/// LoggedUpdate: what one exchange changes in the parameters that all ranks share, as bytes for a rank that follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/bucket_sum.h"
#include "optim/optimizer.h"

namespace dragonn::trainer {

/// A step of the optimizer of the shared parameters.
struct LoggedUpdate {
  double learning_rate = 0;
  std::uint64_t step = 0;  ///< as the optimizer counts them
  float scale = 1;         ///< of the means
  std::span<const exchange::BucketSum> sums = {};
};

/// Returns an update as bytes: 40 for each bucket, and 8 for each entry of its sum or, if that is dense, 4 for each
/// element. The sums are in the memory of the CPU.
std::vector<std::byte> to_bytes(const LoggedUpdate& update);

/// Makes the same step on another rank, which gets the same bits. @param size of the optimizer's arena.
/// @throws DataError for other bytes; then the parameters have no meaning.
void apply_logged(std::span<const std::byte> bytes, std::size_t size, optim::Optimizer& optimizer);

}  // namespace dragonn::trainer

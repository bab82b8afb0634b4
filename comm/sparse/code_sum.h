// SPDX-License-Identifier: MIT
/// CodeSum: gathers the codes of whole buckets and sums the decoded values.
#pragma once

#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// Gathers every rank's code on every rank, and decodes them in rank order on acc's device. (P-1) * code_bytes sent.
class CodeSum final : public RoundsOwner {
 public:
  /// Sums: out.dense_sum <- the sum of the decoded values, on the device of the rank's own code.
  Rounds rounds(Communicator& communicator, const codec::Code& code, std::size_t numel, SparseReduction& out);

 private:
  // The codes of all ranks, back to back: as messages, and where they are decoded if that is not host memory.
  Buffer<std::byte> messages_;
  Buffer<std::byte> on_device_;
};

/// Predicts the cost of such a sum.
Prediction predict_code_sum(const ExchangeSizes& sizes);
/// Returns the bytes of all codes, and of the sum.
std::size_t code_sum_bytes(const ExchangeSizes& sizes);

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// CodeSum: gathers the codes of whole buckets and adds up what they decode to.
#pragma once

#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// Every rank gets every rank's code, and decodes them in rank order where acc lives. (P-1) * code_bytes sent.
class CodeSum final : public RoundsOwner {
 public:
  /// out.dense_sum <- the sum of what the codes decode to, on the device of the rank's own code.
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

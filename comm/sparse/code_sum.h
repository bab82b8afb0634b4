// SPDX-License-Identifier: MIT
/// CodeSum: gathers the codes of whole buckets and sums the decoded values.
#pragma once

#include "codec/values/value_codec.h"
#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// Gathers every rank's code on every rank, and decodes them in rank order on acc's device. (P-1) codes sent.
class CodeSum final : public RoundsOwner {
 public:
  /// Sums: out.dense_sum <- the sum of the `numel` decoded values, on the device of the rank's own code.
  Rounds rounds(Communicator& communicator, const codec::ValueCodec& codec, View<const std::byte> code,
                std::size_t numel, SparseReduction& out);

 private:
  // The codes of all ranks, back to back: as messages, and where they are decoded if that is not host memory.
  Buffer<std::byte> messages_;
  Buffer<std::byte> on_device_;
  std::vector<std::uint64_t> bounds_;  // of messages_, in codes
};

/// Predicts the cost of such a sum.
Prediction predict_code_sum(std::size_t code_bytes, int ranks);

}  // namespace dragonn::comm

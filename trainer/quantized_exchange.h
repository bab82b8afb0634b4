// SPDX-License-Identifier: MIT
/// QuantizedExchange: the exchange of one bucket in dense codes. Encode, gather the codes of all ranks, add them up.
#pragma once

#include <memory>
#include <string>

#include "comm/sparse/sparse_collective.h"
#include "compress/memory.h"
#include "compress/quantizer.h"
#include "trainer/component.h"

namespace dragonn::trainer {

/// What `compression.collective` says where a quantizer is at work: every rank gets every code.
inline constexpr const char* kCodeCollective = "allgather";

/// For every step: plan, (the memory runs the pass), encode, gather, settlement. Holds the codes of all ranks, and n
/// floats in the reduction that it fills.
class QuantizedExchange {
 public:
  /// @param device where acc lives. Codes are gathered in host memory.
  QuantizedExchange(const Component& quantizer, std::size_t numel, const comm::Communicator& group,
                    const Device& device);

  kernels::PassRequest plan() const { return quantizer_->plan(); }
  /// Local. @param acc [n].
  void encode(const compress::QuantizeContext& context, const kernels::PassResult& pass, View<const float> acc);
  /// Collective. out.dense_sum, on the device, <- the decoded codes of all ranks, added up in rank order;
  /// out.non_finite if a rank's code says that it saw NaN or infinity. (P - 1) * code_bytes sent (see
  /// Communicator::allgather). @throws CommError (see Communicator).
  void gather(comm::Communicator& communicator, comm::SparseReduction& out);
  /// What left this rank with the last code.
  compress::Settlement settlement() const { return {.quantizer = quantizer_.get(), .code = mine_}; }

 private:
  void decode(comm::SparseReduction& out);

  std::string name_;
  std::unique_ptr<compress::Quantizer> quantizer_;
  std::size_t numel_;
  // The codes of all ranks, back to back: as messages, in host memory, and where acc lives, which may be the same.
  Buffer<std::byte> messages_;
  Buffer<std::byte> on_device_;
  View<std::byte> codes_;
  View<std::byte> mine_, my_message_;  // in codes_ and in messages_
};

/// Length of a code of `numel` elements.
std::size_t quantized_code_bytes(const Component& quantizer, std::size_t numel);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "comm/sparse/code_sum.h"

#include <numeric>

#include "kernels/devices.h"

namespace dragonn::comm {

Rounds CodeSum::rounds(Communicator& communicator, const codec::ValueCodec& codec, View<const std::byte> code,
                       std::size_t numel, SparseReduction& out) {
  out.reset(communicator.size());
  const std::size_t code_bytes = code.size();
  const Device& device = code.device();
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::size_t all_bytes = ranks * code_bytes;
  if (messages_.size() != all_bytes) {
    bounds_.resize(ranks + 1);
    std::iota(bounds_.begin(), bounds_.end(), std::uint64_t{0});
    messages_ = Buffer<std::byte>(all_bytes, host_memory_for(device));
    on_device_ = Buffer<std::byte>(device.is_cpu() ? 0 : all_bytes, device);
  }
  const View<std::byte> codes = device.is_cpu() ? messages_.view() : on_device_.view();
  const View<std::byte> mine =
      messages_.view().subview(static_cast<std::size_t>(communicator.rank()) * code_bytes, code_bytes);
  kernels::transfer_bytes(code, mine);
  co_await GatherPartsVerb{.whole = messages_.view(), .bounds = bounds_, .element = code_bytes, .equal = true};
  const ScopedSeconds decoding(communicator.clock(), out.statistics.decode_seconds);
  kernels::transfer_bytes(messages_.view(), codes);
  out.is_dense = true;
  out.dense_sum.resize_discard(numel);
  codec.sum(codes, {}, out.dense_sum.view());
}

Prediction predict_code_sum(std::size_t code_bytes, int ranks) {
  const auto bytes = static_cast<double>(code_bytes);
  return {bytes * (ranks - 1), allgather_chain(bytes, ranks)};
}

}  // namespace dragonn::comm

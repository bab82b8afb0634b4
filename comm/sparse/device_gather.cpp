// SPDX-License-Identifier: MIT
#include "comm/sparse/device_gather.h"

#include "comm/device_transport.h"
#include "comm/room.h"
#include "comm/sparse/device_bytes.h"
#include "comm/sparse/scoped_seconds.h"
#include "kernels/devices.h"
#include "kernels/elementwise.h"
#include "kernels/select.h"

namespace dragonn::comm {
void DeviceGather::run(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
                       SparseReduction& out) {
  out.non_finite = counts_.run(communicator, selected.size(), context.non_finite, out.selected_counts);
  while (lists_.size() < out.selected_counts.size()) lists_.emplace_back(selected.device());
  for (std::size_t rank = 0; rank < lists_.size(); ++rank)
    resize_with_room(lists_[rank], out.selected_counts[rank], numel_);
  gather(communicator, selected, context.non_finite);
  {
    const ScopedSeconds decoding(communicator.clock(), out.decode_seconds);
    decode(out);
  }
  if (context.non_finite) return;
  resize_with_room(out.contributed, selected.size(), numel_);
  kernels::transfer(selected.indices.view(), out.contributed.view());
}

void DeviceGather::gather(Communicator& communicator, const SparseVector& selected, bool nothing) {
  const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
  DeviceTransport& transport = *communicator.device_transport();
  parts_.clear();
  for (SparseVector& list : lists_) parts_.push_back(bytes_of(list.indices));
  transport.gather(nothing ? no_bytes_of(selected.indices) : bytes_of(selected.indices), parts_);
  parts_.clear();
  for (SparseVector& list : lists_) parts_.push_back(bytes_of(list.values));
  transport.gather(nothing ? no_bytes_of(selected.values) : bytes_of(selected.values), parts_);
}

void DeviceGather::decode(SparseReduction& out) {
  if (decode_dense_) {
    out.dense_sum.resize_discard(numel_);
    kernels::fill(0.0f, out.dense_sum.view());
    for (const SparseVector& list : lists_) kernels::scatter_add(list, out.dense_sum.view());
    out.is_dense = true;
  } else {
    if (!decoder_) decoder_.emplace(numel_, out.sum.device());
    for (const SparseVector& list : lists_) decoder_->add(list.indices.view(), list.values.view());
    decoder_->finish(out.sum);
  }
  kernels::synchronize(out.sum.device());
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/sparse/device_index_sum.h"

#include <algorithm>

#include "comm/device_transport.h"
#include "comm/room.h"
#include "comm/sparse/device_bytes.h"
#include "comm/sparse/device_lists.h"
#include "comm/sparse/scoped_seconds.h"
#include "kernels/devices.h"
#include "kernels/elementwise.h"
#include "kernels/select.h"

namespace dragonn::comm {

void DeviceIndexSum::sum_at_union(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                                  const SparseVector& selected, SparseReduction& out) {
  if (!agree_on_counts(communicator, context, selected, out)) return;
  unite(communicator, selected, out);
  sum_acc(communicator, acc, out);
}

void DeviceIndexSum::sum_at_leader(Communicator& communicator, const ReduceContext& context, int leader,
                                   View<const float> acc, const SparseVector& selected, SparseReduction& out) {
  if (!agree_on_counts(communicator, context, selected, out)) return;
  const auto from = static_cast<std::size_t>(leader);
  resize_with_room(out.sum, out.selected_counts[from], numel_);
  parts_.assign(out.selected_counts.size(), bytes_of(out.sum.indices).subview(0, 0));
  parts_[from] = bytes_of(out.sum.indices);
  {
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    const bool leads = communicator.rank() == leader;
    communicator.device_transport()->gather(leads ? bytes_of(selected.indices) : no_bytes_of(selected.indices), parts_);
  }
  sum_acc(communicator, acc, out);
}

void DeviceIndexSum::sum_shared(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
                                SparseReduction& out) {
  if (!agree_on_counts(communicator, context, selected, out)) return;
  resize_with_room(out.sum, selected.size(), numel_);
  kernels::copy_entries(selected, out.sum);
  sum_values(communicator, out);
}

bool DeviceIndexSum::agree_on_counts(Communicator& communicator, const ReduceContext& context,
                                     const SparseVector& selected, SparseReduction& out) {
  out.non_finite = counts_.run(communicator, selected.size(), context.non_finite, out.selected_counts);
  return !out.non_finite;
}

void DeviceIndexSum::unite(Communicator& communicator, const SparseVector& selected, SparseReduction& out) {
  const Device& device = selected.device();
  parts_.clear();
  while (lists_.size() < out.selected_counts.size()) lists_.emplace_back(0, device);
  for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
    resize_with_room(lists_[rank], out.selected_counts[rank], numel_);
    parts_.push_back(bytes_of(lists_[rank]));
  }
  {
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    communicator.device_transport()->gather(bytes_of(selected.indices), parts_);
  }
  const ScopedSeconds decoding(communicator.clock(), out.decode_seconds);
  const std::size_t longest = std::ranges::max(out.selected_counts);
  if (longest > zeros_.size() || !(zeros_.device() == device)) {
    zeros_ = Buffer<float>(0, device);
    resize_with_room(zeros_, longest, numel_);
    kernels::fill(0.0f, zeros_.view());
  }
  if (!decoder_) decoder_.emplace(numel_, device);
  for (const Buffer<std::uint32_t>& list : lists_) decoder_->add(list.view(), zeros_.view().subview(0, list.size()));
  decoder_->finish(out.sum);
  kernels::synchronize(device);
}

void DeviceIndexSum::sum_acc(Communicator& communicator, View<const float> acc, SparseReduction& out) {
  kernels::gather(acc, out.sum.indices.view(), out.sum.values.view());
  sum_values(communicator, out);
}

void DeviceIndexSum::sum_values(Communicator& communicator, SparseReduction& out) {
  {
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    communicator.device_transport()->allreduce_sum(out.sum.values.view());
  }
  copy_indices(out.sum, out.contributed);
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/sparse/device_lists.h"

#include <algorithm>
#include <limits>

#include "comm/room.h"
#include "kernels/devices.h"
#include "kernels/elementwise.h"
#include "kernels/select.h"

namespace dragonn::comm {

DeviceLists::DeviceLists(std::size_t numel, const Device& device)
    : numel_(numel), decoder_(numel, device), summed_(device), both_(device), ones_(0, device) {}

void DeviceLists::add(const SparseVector& list) {
  add(list.indices.view(), list.values.view());
}

void DeviceLists::add(View<const std::uint32_t> indices, View<const float> values) {
  decoder_.add(indices, values);
}

void DeviceLists::finish(SparseVector& sum) {
  decoder_.finish(sum);
}

void DeviceLists::finish_nonzero(SparseVector& sum) {
  decoder_.finish(summed_);
  kernels::filter_threshold(summed_, std::numeric_limits<float>::denorm_min(), sum);
}

void DeviceLists::common_indices(View<const std::uint32_t> a, View<const std::uint32_t> b,
                                 Buffer<std::uint32_t>& common) {
  const std::size_t longest = std::max(a.size(), b.size());
  if (longest > ones_.size()) {
    resize_with_room(ones_, longest, numel_);
    kernels::fill(1.0f, ones_.view());
  }
  add(a, ones_.view().subview(0, a.size()));
  add(b, ones_.view().subview(0, b.size()));
  finish(summed_);
  kernels::filter_threshold(summed_, 2.0f, both_);
  copy_indices(both_, common);
}

void copy_list(const SparseVector& source, SparseVector& target) {
  resize_with_room(target, source.size());
  kernels::copy_entries(source, target);
}

void copy_indices(const SparseVector& source, Buffer<std::uint32_t>& target) {
  resize_with_room(target, source.size());
  kernels::transfer(source.indices.view(), target.view());
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/sparse/acc_reader.h"

#include "comm/room.h"
#include "kernels/devices.h"
#include "kernels/select.h"

namespace dragonn::comm {

void AccReader::gather(View<const float> acc, View<const std::uint32_t> indices, View<float> values) {
  if (acc.device().is_cpu()) return kernels::gather(acc, indices, values);
  if (!(on_device_.device() == acc.device())) on_device_ = SparseVector(acc.device());
  resize_with_room(on_device_, indices.size(), acc.size());
  kernels::start_transfer(indices, on_device_.indices.view());  // waited for with the values
  kernels::gather(acc, on_device_.indices.view(), on_device_.values.view());
  kernels::transfer(View<const float>(on_device_.values.view()), values);
}

}  // namespace dragonn::comm

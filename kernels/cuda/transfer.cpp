// SPDX-License-Identifier: MIT
#include "core/error.h"
#include "kernels/cuda/runtime.h"
#include "kernels/devices.h"

namespace dragonn::kernels::cuda {
namespace {

void start_transfer(View<const std::byte> source, View<std::byte> target) {
  if (source.empty() || source.data() == target.data()) return;
  const Device& device = source.device().is_cpu() ? target.device() : source.device();
  if (!target.device().is_cpu() && !(target.device() == device))
    throw DeviceError("transfer from " + to_string(source.device()) + " to " + to_string(target.device()) +
                      ": expected one GPU, and the host");
  check(cudaMemcpyAsync(target.data(), source.data(), source.size(), cudaMemcpyDefault, context(device).stream()),
        "cudaMemcpyAsync");
}

[[maybe_unused]] const bool registered = kernels::transfer_rows.add(DeviceType::kCuda, start_transfer);

}  // namespace
}  // namespace dragonn::kernels::cuda

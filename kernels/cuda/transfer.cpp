// SPDX-License-Identifier: MIT
#include "core/error.h"
#include "kernels/cuda/runtime.h"
#include "kernels/devices.h"

namespace dragonn::kernels::cuda {
namespace {

void transfer(View<const std::byte> source, View<std::byte> target) {
  if (source.empty() || source.data() == target.data()) return;
  const Device& device = source.device().is_cpu() ? target.device() : source.device();
  if (!target.device().is_cpu() && !(target.device() == device))
    throw DeviceError("transfer from " + to_string(source.device()) + " to " + to_string(target.device()) +
                      ": expected one GPU, and the host");
  Context& here = context(device);
  check(cudaMemcpyAsync(target.data(), source.data(), source.size(), cudaMemcpyDefault, here.stream()),
        "cudaMemcpyAsync");
  // The host may change its source, or read its target, as soon as this returns.
  if (source.device().is_cpu() || target.device().is_cpu()) here.synchronize();
}

[[maybe_unused]] const bool registered = transfer_table().add(DeviceType::kCuda, transfer);

}  // namespace
}  // namespace dragonn::kernels::cuda

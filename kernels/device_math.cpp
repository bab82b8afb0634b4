// SPDX-License-Identifier: MIT
#include "kernels/device_math.h"

namespace dragonn::kernels {
namespace {

void on_cpu(const Device&, DeviceMath math) {
  if (math != DeviceMath::kFloat32) throw ConfigError("the CPU multiplies in float32 only: valid is \"float32\"");
}

}  // namespace

constinit decltype(set_math) set_math("set_math", on_cpu);
constinit decltype(storage_type) storage_type("storage_type", [](const Device&) { return ElementType::kFloat32; });

}  // namespace dragonn::kernels

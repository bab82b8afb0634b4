// SPDX-License-Identifier: MIT
#include "kernels/device_math.h"

namespace dragonn::kernels {
namespace {

void on_cpu(const Device&, DeviceMath math) {
  if (math != DeviceMath::kFloat32) throw ConfigError("the CPU multiplies in float32 only: valid is \"float32\"");
}

}  // namespace

SetMathTable& set_math_table() {
  static SetMathTable table("set_math", on_cpu);
  return table;
}

void set_math(const Device& device, DeviceMath math) {
  set_math_table().at(device)(device, math);
}

}  // namespace dragonn::kernels

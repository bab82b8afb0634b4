// SPDX-License-Identifier: MIT
/// Typed values: the elements of typed views, in and out of tests as float32 of the host.
#pragma once

#include <vector>

#include "kernels/nn/elementwise.h"
#include "kernels/typed_view.h"
#include "tests/support/devices.h"

namespace dragonn::test {

/// The values of a view on any device, in any type of element.
inline std::vector<float> values_of(kernels::TypedView<const float> view) {
  if (view.empty() || view.type() == kernels::ElementType::kFloat32) return to_host(view.floats());
  Buffer<float> wide(view.size(), view.device());
  kernels::convert(view, wide.view());
  return to_host(wide.view());
}

/// Fills a view with values, which are rounded if it is of bf16.
inline void set_values(kernels::TypedView<float> view, const std::vector<float>& values) {
  const Buffer<float> wide = on_device(values, view.device());
  kernels::convert(wide.view(), view);
  kernels::synchronize(view.device());
}

/// Memory on a device with these values, in either type of element.
class TypedBuffer {
 public:
  TypedBuffer(const std::vector<float>& values, kernels::ElementType type, const Device& device)
      : memory_(kernels::floats_of(type, values.size()), device), view_(memory_.data(), values.size(), type, device) {
    set_values(view_, values);
  }
  kernels::TypedView<float> view() const { return view_; }

 private:
  Buffer<float> memory_;
  kernels::TypedView<float> view_;
};

}  // namespace dragonn::test

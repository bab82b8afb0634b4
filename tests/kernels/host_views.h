// SPDX-License-Identifier: MIT
/// Views of vectors, as arguments of kernels.
#pragma once

#include <vector>

#include "core/view.h"

namespace dragonn::kernels::test {

inline View<const float> in(const std::vector<float>& values) {
  return View<const float>(values);
}
inline View<float> out(std::vector<float>& values) {
  return View<float>(values);
}

}  // namespace dragonn::kernels::test

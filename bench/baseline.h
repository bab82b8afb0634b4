// SPDX-License-Identifier: MIT
/// What others select with: the rows of `dragonn-bench compress` that are not ours, each from a file of its own.
#pragma once

#include <functional>

#include "bench/selection.h"
#include "core/registry.h"

namespace dragonn::bench {

/// Selects the entries above the threshold, or the k largest, from given memory of one type of device.
struct BaselineEntry : RegistryEntry {
  static constexpr const char* kKind = "baseline";
  DeviceType device = DeviceType::kCpu;
  std::string obstacle;  ///< why this build does not have it, as "CUB 3.0 has none"; empty if it does
  /// @param selected on the gradient's device, with room for a selection (kernels::reserve_selection); overwritten.
  std::function<void(const Subject& subject, SparseVector& selected)> select;
};

}  // namespace dragonn::bench

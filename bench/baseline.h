// SPDX-License-Identifier: MIT
/// Baseline: another library's selection, for comparison in `dragonn-bench compress`. Each registers itself from its
/// own file.
#pragma once

#include <functional>

#include "bench/selection.h"
#include "core/registry.h"

namespace dragonn::bench {

/// Selects the entries above the threshold, or the k largest, from memory of one type of device.
struct BaselineEntry : RegistryEntry {
  static constexpr const char* kKind = "baseline";
  DeviceType device = DeviceType::kCpu;
  std::string obstacle;  ///< why this build lacks it, as "CUB 3.0 has none"; empty if it does not
  /// Selects. @param selected on the gradient's device, with room for a selection (kernels::reserve_selection);
  /// overwritten.
  std::function<void(const Subject& subject, SparseVector& selected)> select;
};

}  // namespace dragonn::bench

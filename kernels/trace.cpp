// SPDX-License-Identifier: MIT
#include "kernels/trace.h"

#include <array>
#include <utility>

namespace dragonn::kernels {
namespace {

constinit std::array<TraceFunctions, 2> table{};

}  // namespace

TraceFunctions register_trace(DeviceType type, TraceFunctions functions) {
  return std::exchange(table[static_cast<std::size_t>(type)], functions);
}

const TraceFunctions& trace_functions(DeviceType type) {
  return table[static_cast<std::size_t>(type)];
}

}  // namespace dragonn::kernels

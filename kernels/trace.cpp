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

namespace {

std::unique_ptr<EventTimer> none_on_cpu(const Device& /*device*/) {
  return nullptr;
}

}  // namespace

constinit decltype(make_event_timer) make_event_timer("event timer", none_on_cpu);

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
#include "bench/device_timer.h"

#include <fmt/format.h>

#include "kernels/devices.h"

namespace dragonn::bench {
namespace {

double time_on_cpu(const Device& /*device*/, const Work& work) {
  return seconds_of([&] { work.call(work.body); });
}

}  // namespace

TimerTable& timer_table() {
  static TimerTable table("timer", time_on_cpu);
  return table;
}

Device device_named(const std::string& name) {
  if (name == "cpu") return {};
  const std::string obstacle = kernels::device_obstacle(DeviceType::kCuda);
  if (!obstacle.empty()) throw ConfigError(fmt::format("--device {}: no GPU can be used here: {}", name, obstacle));
  return {DeviceType::kCuda, 0};
}

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
#include "bench/device_option.h"

#include <fmt/format.h>

#include "core/error.h"
#include "kernels/devices.h"

namespace dragonn::bench {

void add_device_option(CLI::App& command, std::string& name) {
  command.add_option("--device", name, "Device that does the work")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
}

Device device_of(const std::string& name) {
  if (name == "cpu") return {};
  const std::string obstacle = kernels::device_obstacle(DeviceType::kCuda);
  if (!obstacle.empty()) throw ConfigError(fmt::format("--device cuda: {}; expected cpu here", obstacle));
  return {DeviceType::kCuda, 0};
}

}  // namespace dragonn::bench

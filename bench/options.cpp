// SPDX-License-Identifier: MIT
#include "bench/options.h"

#include <fmt/format.h>

#include "core/error.h"
#include "kernels/devices.h"
#include "trainer/config/toml_config.h"

namespace dragonn::bench {

void add_device_option(CLI::App& command, std::string& name) {
  command.add_option("--device", name, "Device that does the work")->check(CLI::IsMember({"cpu", "cuda"}));
}

void add_rounds_option(CLI::App& command, int& rounds) {
  command.add_option("--rounds", rounds, "Measurements of each row; the table shows medians")
      ->check(CLI::Range(1, 100000));
}

void add_threads_option(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "OpenMP threads")->check(CLI::Range(1, 1024));
}

void add_set_option(CLI::App& command, std::vector<std::string>& assignments, const std::string& help,
                    const std::string& type_name) {
  command.add_option("--set", assignments, help)->type_name(type_name)->default_str("");
}

Device device_of(const std::string& name) {
  if (name == "cpu") return {};
  const std::string obstacle = kernels::device_obstacle(DeviceType::kCuda);
  if (!obstacle.empty()) throw ConfigError(fmt::format("--device cuda: {}; expected cpu here", obstacle));
  return {DeviceType::kCuda, 0};
}

void assign_settings(const std::vector<std::string>& assignments, MethodSettings& settings) {
  trainer::RawConfig overrides;
  for (const std::string& assignment : assignments) trainer::apply_override(overrides, assignment);
  for (const trainer::RawKey& key : overrides.keys) {
    const auto found = settings.find(key.table);
    if (found == settings.end()) throw ConfigError(key.origin + ": expected a measured method's name before the dot");
    found->second.set(key.name, key.value);
  }
}

}  // namespace dragonn::bench

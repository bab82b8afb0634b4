// SPDX-License-Identifier: MIT
#include "bench/method_settings.h"

#include "core/error.h"
#include "trainer/config/toml_config.h"

namespace dragonn::bench {

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

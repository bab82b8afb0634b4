// SPDX-License-Identifier: MIT
#include "data/bad_samples.h"

#include <fmt/format.h>

namespace dragonn::data {

SettingSpec bad_samples_setting(const std::string& what) {
  return {.name = "bad_samples",
          .default_value = std::string("error"),
          .help = "treatment of " + what + "; error: the run stops; skip: they are left out and counted",
          .choices = {"error", "skip"}};
}

std::vector<std::string> BadSamples::notes(const std::string& samples) const {
  if (count_ == 0) return {};
  return {fmt::format("{} {} left out (data.bad_samples); the first: {}", count_, samples, first_)};
}

}  // namespace dragonn::data

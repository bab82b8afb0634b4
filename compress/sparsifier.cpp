// SPDX-License-Identifier: MIT
#include "compress/sparsifier.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace dragonn::compress {

std::size_t target_count(double density, std::size_t numel) {
  if (!(density > 0.0 && density <= 1.0)) {
    throw ConfigError(fmt::format("density = {}: expected a number in (0, 1]", density));
  }
  const auto entries = static_cast<std::size_t>(std::floor(density * static_cast<double>(numel)));
  return std::max<std::size_t>(1, entries);
}

}  // namespace dragonn::compress

// SPDX-License-Identifier: MIT
#include "compress/normal_quantile.h"

#include <cmath>
#include <numbers>

#include "core/error.h"

namespace dragonn::compress {

double normal_upper_quantile(double probability) {
  DRAGONN_CHECK(probability > 0 && probability <= 0.5, "the upper normal quantile of {}; expected (0, 0.5]",
                probability);
  double low = 0, high = 39;  // erfc(39 / sqrt(2)) is 0 in double
  for (;;) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) return low;
    (std::erfc(middle / std::numbers::sqrt2) / 2 >= probability ? low : high) = middle;
  }
}

}  // namespace dragonn::compress

// SPDX-License-Identifier: MIT
#include "optim/clip.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "core/error.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::optim {

double squared_norm(View<const float> gradient) {
  if (!gradient.device().is_cpu()) return kernels::magnitude_moments(gradient).sum_squares;
  // Independent partial sums, which the compiler turns into vectors and which are added in a fixed order.
  constexpr std::size_t kLanes = 16;
  const std::span<const float> values = gradient.host();
  std::array<double, kLanes> sums{};
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  for (const float value : values.subspan(whole)) total += static_cast<double>(value) * value;
  return total;
}

float clip_scale(double norm, double limit) {
  DRAGONN_CHECK(limit > 0, "clipping to a norm of {}: it must be above 0", limit);
  constexpr double kGuard = 1e-6;  // of a division by zero, as in the papers' codes
  if (!std::isfinite(norm)) return 1.0f;
  return static_cast<float>(std::min(1.0, limit / (norm + kGuard)));
}

float local_clip_scale(double norm, double limit, int world_size) {
  DRAGONN_CHECK(world_size >= 1, "clipping on {} ranks", world_size);
  return clip_scale(norm, limit / std::sqrt(static_cast<double>(world_size)));
}

}  // namespace dragonn::optim

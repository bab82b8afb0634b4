// SPDX-License-Identifier: MIT
// Value codec "mag2": two bits a value, its sign and which of two magnitudes it has.
#include <cmath>

#include "codec/values/packed_groups.h"

namespace dragonn::codec {
namespace {

constexpr std::size_t kGroup = 65536;  // values that share the two magnitudes, at most
constexpr int kMoves = 3;              // of the threshold between them

/// Shares the mean magnitude of the values below and above a threshold, which is first the mean of all, and then moves
/// to the middle between the two means: Lloyd's quantizer of the magnitudes.
struct Magnitudes {
  static constexpr std::size_t kShared = 2;
  /// The two magnitudes, the lower one first, and the largest magnitude that becomes the lower one.
  struct Shared : std::array<float, kShared> {
    float threshold = 0;
  };

  /// Returns the means on both sides. A magnitude that is NaN counts as one below.
  static Shared means_around(float threshold, std::span<const float> values) {
    std::array<double, kLanes> low{}, high{}, above{};
    for_each_in_lanes(values, [&](std::size_t lane, float value) {
      const double magnitude = std::abs(value);
      const bool is_above = std::abs(value) > threshold;
      low[lane] += is_above ? 0 : magnitude;
      high[lane] += is_above ? magnitude : 0;
      above[lane] += is_above ? 1 : 0;
    });
    const double count = sum_of_lanes(above);
    const auto lower = saturated(sum_of_lanes(low) / (static_cast<double>(values.size()) - count));
    return {{lower, count > 0 ? saturated(sum_of_lanes(high) / count) : lower}, threshold};
  }

  Shared shared(std::span<const float> values) const {
    const double sum = sum_of(values, [](float value) { return double{std::abs(value)}; });
    Shared means = means_around(saturated(sum / static_cast<double>(values.size())), values);
    for (int move = 0; move < kMoves; ++move)
      means = means_around(static_cast<float>((double{means[0]} + double{means[1]}) / 2), values);
    return means;
  }
  auto encoder(const Shared& shared, std::span<const float>, std::size_t) const {
    return [threshold = shared.threshold](float value) {
      return (std::signbit(value) ? 2u : 0u) + (std::abs(value) > threshold ? 1u : 0u);
    };
  }
  auto decoder(const std::array<float, kShared>& shared) const {
    return [values = std::array{shared[0], shared[1], -shared[0], -shared[1]}](std::uint32_t number) {
      return values[number];
    };
  }
};

const Registration<ValueCodecEntry> registration{
    {{.name = "mag2",
      .summary = "two bits per value: its sign and one of two magnitudes",
      .source = "of this project: for selected values, of which none is near zero"},
     /*lossy=*/true,
     /*unbiased=*/false,
     /*make=*/[](const Settings&) { return std::make_unique<PackedGroups<Magnitudes>>(Magnitudes{}, 2, kGroup); }}};

}  // namespace
}  // namespace dragonn::codec

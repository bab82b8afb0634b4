// SPDX-License-Identifier: MIT
// Value codec "bins2": two bits a value, the mean of its bin (SparseLoCo).
#include <cmath>

#include "codec/values/packed_groups.h"

namespace dragonn::codec {
namespace {

constexpr unsigned kBits = 2;
constexpr int kBins = 1 << kBits;
constexpr double kRange = 6;           // the bins span this many standard deviations
constexpr std::size_t kGroup = 65536;  // values that share a table, at most
// The root of the sum of squared differences to the mean up to which no difference, nor a value's to its bin's mean,
// comes near the largest float.
constexpr double kLargestSpread = double{std::numeric_limits<float>::max()} / 8;

/// Shares the mean, and the means of the bins relative to it; the bins are of equal width around the mean.
struct Bins {
  static constexpr std::size_t kShared = 1 + kBins;
  using Shared = std::array<float, kShared>;

  static float mean_of(std::span<const float> values) {
    const double sum = sum_of(values, [](float value) { return double{value}; });
    return static_cast<float>(sum / static_cast<double>(values.size()));
  }
  static double squares_about(float mean, std::span<const float> values) {
    return sum_of(values, [mean](float value) { return double{value - mean} * double{value - mean}; });
  }
  static float width_of(double squares, std::size_t count) {
    const double width = kRange * std::sqrt(squares / (static_cast<double>(count) - 1)) / kBins;
    return std::isfinite(width) && width > 0 ? saturated(width) : 1.0f;
  }
  /// Returns the nearest even number to the place among the bins, by comparisons, which can use vectors; 0 for NaN.
  static std::uint32_t bin_of(float centred, float width) {
    const float place = centred / width + static_cast<float>(kBins / 2);
    static_assert(kBins == 4);
    return (place > 0.5f ? 1u : 0u) + (place >= 1.5f ? 1u : 0u) + (place > 2.5f ? 1u : 0u);
  }

  Shared shared(std::span<const float> values) const {
    float mean = mean_of(values);
    double squares = squares_about(mean, values);
    if (!(squares <= kLargestSpread * kLargestSpread)) {
      // Differences to the mean may overflow. About 0 they cannot, and with a width of at most the largest float a bin
      // that holds both signs holds no more than half of it, so that no value is further than that from its bin's mean.
      mean = 0;
      squares = squares_about(mean, values);
    }
    const float width = width_of(squares, values.size());
    std::array<std::array<double, kBins>, kLanes> sums{};
    std::array<std::array<std::uint32_t, kBins>, kLanes> counts{};
    std::array<std::uint32_t, kPackedAtOnce> bins;
    for (std::size_t begin = 0; begin < values.size(); begin += kPackedAtOnce) {
      const std::span<const float> block = values.subspan(begin, std::min(kPackedAtOnce, values.size() - begin));
      for (std::size_t i = 0; i < block.size(); ++i) bins[i] = bin_of(block[i] - mean, width);
      for (std::size_t i = 0; i < block.size(); ++i) {
        sums[i % kLanes][bins[i]] += block[i] - mean;
        ++counts[i % kLanes][bins[i]];
      }
    }
    Shared result{mean};
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      double sum = 0, count = 0;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sum += sums[lane][bin];
        count += counts[lane][bin];
      }
      result[1 + bin] = count > 0 ? static_cast<float>(sum / count) : 0.0f;
    }
    return result;
  }
  auto encoder(const Shared& shared, std::span<const float> values, std::size_t) const {
    const float mean = shared[0], width = width_of(squares_about(mean, values), values.size());
    return [mean, width](float value) { return bin_of(value - mean, width); };
  }
  auto decoder(const Shared& shared) const {
    std::array<float, kBins> values;
    for (std::size_t bin = 0; bin < kBins; ++bin) values[bin] = shared[1 + bin] + shared[0];
    return [values](std::uint32_t bin) { return values[bin]; };
  }
};

const Registration<ValueCodecEntry> registration{[] {
  ValueCodecEntry entry;
  entry.name = "bins2";
  entry.summary = "two bits per value: the mean of one of four bins";
  entry.source = "arXiv:2508.15706 (SparseLoCo), its released code CCLoco";
  entry.make = [](const Settings&) -> std::unique_ptr<ValueCodec> {
    return std::make_unique<PackedGroups<Bins>>(Bins{}, kBits, kGroup);
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::codec

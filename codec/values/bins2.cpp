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

/// Shares the mean, and the means of the bins relative to it; the bins are of equal width around the mean.
struct Bins {
  static constexpr std::size_t kShared = 1 + kBins;
  using Shared = std::array<float, kShared>;

  static float mean_of(std::span<const float> values) {
    double sum = 0;
    for (const float value : values) sum += value;
    return static_cast<float>(sum / static_cast<double>(values.size()));
  }
  static float width_of(std::span<const float> values, float mean) {
    double squares = 0;
    for (const float value : values) squares += double{value - mean} * double{value - mean};
    const double width = kRange * std::sqrt(squares / (static_cast<double>(values.size()) - 1)) / kBins;
    return std::isfinite(width) && width > 0 ? static_cast<float>(width) : 1.0f;
  }
  static std::uint32_t bin_of(float centred, float width) {
    const float bin = std::nearbyint(centred / width + static_cast<float>(kBins / 2));
    // Written so that NaN gives a bin, too.
    return bin >= 1 ? static_cast<std::uint32_t>(std::min(bin, static_cast<float>(kBins - 1))) : 0;
  }

  Shared shared(std::span<const float> values) const {
    const float mean = mean_of(values), width = width_of(values, mean);
    std::array<double, kBins> sums{};
    std::array<std::size_t, kBins> counts{};
    for (const float value : values) {
      const std::uint32_t bin = bin_of(value - mean, width);
      sums[bin] += value - mean;
      ++counts[bin];
    }
    Shared result{mean};
    for (std::size_t bin = 0; bin < kBins; ++bin)
      result[1 + bin] = counts[bin] > 0 ? static_cast<float>(sums[bin] / static_cast<double>(counts[bin])) : 0.0f;
    return result;
  }
  auto encoder(const Shared& shared, std::span<const float> values) const {
    return [mean = shared[0], width = width_of(values, shared[0])](float value) { return bin_of(value - mean, width); };
  }
  auto decoder(const Shared& shared) const {
    std::array<float, kBins> values;
    for (std::size_t bin = 0; bin < kBins; ++bin) values[bin] = shared[1 + bin] + shared[0];
    return [values](std::uint32_t bin) { return values[bin]; };
  }
};

const Registration<ListValueCodecEntry> registration{[] {
  ListValueCodecEntry entry;
  entry.name = "bins2";
  entry.summary = "two bits a value: the mean of one of four bins";
  entry.source = "arXiv:2508.15706 (SparseLoCo), its released code CCLoco";
  entry.make = [](const Settings&) -> std::unique_ptr<ListValueCodec> {
    return std::make_unique<PackedGroups<Bins>>(Bins{}, kBits, kGroup);
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::codec

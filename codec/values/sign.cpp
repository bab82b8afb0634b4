// SPDX-License-Identifier: MIT
// Value codec "sign": one bit a value, times the mean magnitude of its group.
#include <cmath>

#include "codec/values/packed_groups.h"

namespace dragonn::codec {
namespace {

struct Sign {
  static constexpr std::size_t kShared = 1;

  std::array<float, kShared> shared(std::span<const float> values) const {
    const double sum = sum_of(values, [](float value) { return double{std::abs(value)}; });
    return {saturated(sum / static_cast<double>(values.size()))};
  }
  auto encoder(const std::array<float, kShared>&, std::span<const float>, std::size_t) const {
    return [](float value) { return std::uint32_t{std::signbit(value)}; };
  }
  auto decoder(const std::array<float, kShared>& shared) const {
    return [scale = shared[0]](std::uint32_t number) { return number == 0 ? scale : -scale; };
  }
};

const Registration<ValueCodecEntry> registration{[] {
  ValueCodecEntry entry;
  entry.name = "sign";
  entry.summary = "one bit per value: its sign, times the mean magnitude";
  entry.source = "arXiv:1901.09847 (EF-SignSGD, Karimireddy et al., ICML 2019), of the selected entries";
  entry.settings = {{.name = "group",
                     .default_value = std::int64_t{0},
                     .help = "number of entries of a list that share a mean magnitude; 0: all",
                     .minimum = 0,
                     .maximum = 0x1p31}};
  entry.make = [](const Settings& settings) -> std::unique_ptr<ValueCodec> {
    const auto group = static_cast<std::size_t>(settings.integer("group"));
    return std::make_unique<PackedGroups<Sign>>(Sign{}, 1, group > 0 ? group : std::size_t{1} << 32);
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::codec

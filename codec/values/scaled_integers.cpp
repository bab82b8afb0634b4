// SPDX-License-Identifier: MIT
/// The value codecs `int4` and `int8`: values as whole multiples of a scale that a group of them shares.
#include <cmath>

#include "codec/values/packed_groups.h"

namespace dragonn::codec {
namespace {

/// Rounds to the nearest even multiple of largest magnitude / (2^(bits - 1) - 1). A scale that is 0 or not finite codes
/// all as 0.
struct ScaledIntegers {
  static constexpr std::size_t kShared = 1;
  unsigned bits;

  struct Encoder {
    float scale, limit;  ///< not 0; the largest number
    std::int32_t offset;

    std::uint32_t operator()(float value) const {
      // Adding 1.5 x 2^23 leaves the nearest even whole number in the low bits of the mantissa.
      constexpr float kWhole = 0x1.8p23f;
      const float share = value / scale;
      const float within = share > limit ? limit : (share >= -limit ? share : -limit);  // -limit for NaN
      const auto number = static_cast<std::int32_t>(within + kWhole - kWhole);
      return static_cast<std::uint32_t>(number + offset);
    }
  };

  float max() const { return static_cast<float>((1 << (bits - 1)) - 1); }
  std::array<float, kShared> shared(std::span<const float> values) const {
    const float scale = largest_magnitude(values) / max();
    // Rounded up, the scale of the largest floats would decode to infinity.
    const bool overflows = scale * max() > std::numeric_limits<float>::max();
    return {overflows ? std::nextafter(scale, 0.0f) : scale};
  }
  Encoder encoder(const std::array<float, kShared>& shared, std::span<const float>, std::size_t) const {
    const float scale = shared[0], limit = max();
    const auto offset = static_cast<std::int32_t>(limit) + 1;
    const bool is_usable = scale > 0 && scale <= std::numeric_limits<float>::max();
    return is_usable ? Encoder{scale, limit, offset} : Encoder{1, 0, offset};
  }
  auto decoder(const std::array<float, kShared>& shared) const {
    const auto offset = static_cast<std::int32_t>(max()) + 1;
    return [scale = shared[0], offset](std::uint32_t number) {
      return scale * static_cast<float>(static_cast<std::int32_t>(number) - offset);
    };
  }
};

ValueCodecEntry scaled_integers(const char* name, const char* summary, unsigned bits) {
  return {{.name = name,
           .summary = summary,
           .settings = {SettingSpec::integer("group", 1024, "number of entries of a list that share a scale of 32 bits",
                                             1, 0x1p31)}},
          /*lossy=*/true,
          /*unbiased=*/false,
          /*make=*/[bits](const Settings& settings) {
            const auto group = static_cast<std::size_t>(settings.integer("group"));
            return std::make_unique<PackedGroups<ScaledIntegers>>(ScaledIntegers{bits}, bits, group);
          }};
}

const Registration<ValueCodecEntry> four_bits{
    scaled_integers("int4", "4 bits a value: whole multiples of the largest magnitude of its group / 7", 4)};
const Registration<ValueCodecEntry> eight_bits{
    scaled_integers("int8", "8 bits a value: whole multiples of the largest magnitude of its group / 127", 8)};

}  // namespace
}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
// Value codec "levels": magnitudes as shares of their group's Euclidean norm, rounded at random (QSGD).
#include <bit>
#include <cmath>

#include "codec/values/packed_groups.h"
#include "core/hash.h"
#include "core/rng.h"

namespace dragonn::codec {
namespace {

/// Draws from a stream that the values of the group and its place in the list choose: no state, other numbers for other
/// values, and for equal values in other groups.
struct Levels {
  static constexpr std::size_t kShared = 1;
  using Shared = std::array<float, kShared>;
  int levels;

  Shared shared(std::span<const float> values) const {
    const double squares = sum_of(values, [](float value) { return double{value} * double{value}; });
    // Any norm of at least the largest magnitude keeps values right in the mean: one that is too large for a float
    // becomes the largest float, and one whose levels per unit would be, that of 2^127 levels per unit.
    const float norm = saturated(std::sqrt(squares));
    return {norm > 0 ? std::max(norm, static_cast<float>(levels) * 0x1p-127f) : norm};
  }
  auto encoder(const Shared& shared, std::span<const float> values, std::size_t group) const {
    const float norm = shared[0];
    const bool is_usable = norm > 0 && std::isfinite(norm);
    const float per_level = is_usable ? static_cast<float>(levels) / norm : 0.0f;
    // Far apart: the streams of equal groups do not overlap.
    const std::uint64_t counter = std::uint64_t{group} << 32;
    return [per_level, max = levels, rng = Rng(hash_bytes(std::as_bytes(values)), counter)](float value) mutable {
      const float share = per_level > 0 ? std::min(std::abs(value) * per_level, static_cast<float>(max)) : 0.0f;
      const float floor = std::floor(share);
      const int level = static_cast<int>(floor) + (rng.uniform() < share - floor ? 1 : 0);
      return static_cast<std::uint32_t>(max + (std::signbit(value) ? -level : level));
    };
  }
  auto decoder(const Shared& shared) const {
    return [norm = shared[0], max = levels](std::uint32_t number) {
      return norm * (static_cast<float>(static_cast<int>(number) - max) / static_cast<float>(max));
    };
  }
};

const Registration<ValueCodecEntry> registration{[] {
  ValueCodecEntry entry;
  entry.name = "levels";
  entry.summary = "values rounded at random to levels of their group's norm; unbiased";
  entry.source = "arXiv:1610.02132 (QSGD, Alistarh et al., NeurIPS 2017), section 3.1, of the selected entries";
  entry.settings = {{.name = "levels",
                     .default_value = std::int64_t{7},
                     .help = "number of non-zero levels of a magnitude; a value takes the bits of twice as many",
                     .minimum = 1,
                     .maximum = 32767},
                    {.name = "group",
                     .default_value = std::int64_t{128},
                     .help = "number of entries of a list that share a norm",
                     .minimum = 1,
                     .maximum = 0x1p31}};
  entry.unbiased = true;
  entry.make = [](const Settings& settings) -> std::unique_ptr<ValueCodec> {
    const auto levels = static_cast<int>(settings.integer("levels"));
    const auto bits = static_cast<unsigned>(std::bit_width(2 * static_cast<unsigned>(levels)));
    return std::make_unique<PackedGroups<Levels>>(Levels{levels}, bits,
                                                  static_cast<std::size_t>(settings.integer("group")));
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
#include "data/images/resample.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"

namespace dragonn::data {
namespace {

constexpr std::size_t kRgb = 3;

/// Sets or adds weight * row.
template <bool kAdds>
void accumulate(const std::uint8_t* __restrict row, float weight, std::size_t count, float* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = weight * static_cast<float>(row[i]);
    sums[i] = kAdds ? sums[i] + value : value;
  }
}

/// Returns the weighted mean of pixels; a fourth lane, which goes with the next pixel's red, makes it one vector.
std::array<float, 4> weighted(const float* pixels, const float* weights, std::int32_t count) {
  std::array<float, 4> sum{};
  for (std::int32_t i = 0; i < count; ++i, pixels += kRgb) {
    for (std::size_t lane = 0; lane < 4; ++lane) sum[lane] += weights[i] * pixels[lane];
  }
  return sum;
}

}  // namespace

void Resampler::Taps::set(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t outputs) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  max = static_cast<std::size_t>(std::ceil(reach)) * 2 + 1;
  first.resize(static_cast<std::size_t>(outputs));
  count.resize(first.size());
  weights.resize(first.size() * max);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double centre = (static_cast<double>(begin) + static_cast<double>(i) + 0.5) * scale;
    const auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - reach + 0.5));
    const auto high = std::min(from, static_cast<std::int64_t>(centre + reach + 0.5));
    const auto weight = [&](std::int64_t place) {
      return std::max(0.0, 1.0 - std::abs((static_cast<double>(place) - centre + 0.5) / reach));
    };
    double sum = 0;
    for (std::int64_t place = low; place < high; ++place) sum += weight(place);
    first[i] = static_cast<std::int32_t>(low);
    count[i] = static_cast<std::int32_t>(high - low);
    for (std::int64_t place = low; place < high; ++place) {
      weights[i * max + static_cast<std::size_t>(place - low)] = static_cast<float>(weight(place) / sum);
    }
  }
}

void Resampler::add_rows(const RgbView& source, std::size_t row, std::size_t begin, std::size_t end) {
  const std::uint8_t* pixels = source.pixels + static_cast<std::size_t>(down_.first[row]) * source.stride + begin;
  for (std::int32_t tap = 0; tap < down_.count[row]; ++tap, pixels += source.stride) {
    const float weight = down_.weights[row * down_.max + static_cast<std::size_t>(tap)];
    if (tap == 0) {
      accumulate<false>(pixels, weight, end - begin, line_.data() + begin);
    } else {
      accumulate<true>(pixels, weight, end - begin, line_.data() + begin);
    }
  }
}

void Resampler::resize(const RgbView& source, ImageSize size, const Region& window, bool mirrored,
                       std::span<std::uint8_t> out) {
  DRAGONN_CHECK(out.size() == static_cast<std::size_t>(window.height * window.width) * kRgb,
                "{} bytes for {} x {} pixels", out.size(), window.height, window.width);
  down_.set(source.size.height, size.height, window.top, window.height);
  across_.set(source.size.width, size.width, window.left, window.width);
  line_.resize(static_cast<std::size_t>(source.size.width) * kRgb + 1);  // 1: the last pixel's fourth lane
  const std::size_t columns = across_.first.size();
  const std::size_t begin = static_cast<std::size_t>(across_.first.front()) * kRgb;
  const std::size_t end = static_cast<std::size_t>(across_.first.back() + across_.count.back()) * kRgb;
  for (std::size_t row = 0; row < down_.first.size(); ++row) {
    add_rows(source, row, begin, end);
    std::uint8_t* const line = out.data() + row * columns * kRgb;
    for (std::size_t column = 0; column < columns; ++column) {
      const std::array<float, 4> pixel = weighted(line_.data() + static_cast<std::size_t>(across_.first[column]) * kRgb,
                                                  across_.weights.data() + column * across_.max, across_.count[column]);
      std::uint8_t* const place = line + (mirrored ? columns - 1 - column : column) * kRgb;
      for (std::size_t c = 0; c < kRgb; ++c) place[c] = static_cast<std::uint8_t>(pixel[c] + 0.5f);
    }
  }
}

}  // namespace dragonn::data

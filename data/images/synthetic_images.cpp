// SPDX-License-Identifier: MIT
/// The data set `synthetic_images`: learnable images of any size, made without any file.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "data/images/image_dataset.h"

// Every class has a pattern: a coarse grid of random values, interpolated to the size of the image. An image shows its
// class's pattern, shifted by a random amount, with a weaker pattern of another class laid over it and noise on top.
// Shifts make a template match fail; the second pattern and the noise set how hard the task is. Only integer and
// elementary arithmetic is used, so a seed gives the same images on every platform.

namespace dragonn::data {
namespace {

constexpr std::int64_t kGridCells = 4;       ///< along each side
constexpr std::int64_t kShiftFraction = 8;   ///< shifts reach 1/8 of the side in both directions
constexpr double kPatternAmplitude = 0.25;   ///< share of the pixel range, before noise
constexpr double kLargestDistraction = 0.7;  ///< weight of the other class's pattern, against 1

/// The size of the task.
struct SyntheticSpec {
  std::int64_t height = 0, width = 0, channels = 0, classes = 0;
  double noise = 0;
  std::uint64_t seed = 0;
};

/// Values in [-1, 1], [channels, height, width].
using Pattern = std::vector<float>;

/// One channel of a pattern: random values in [-1, 1) on a coarse grid that wraps around, as the shifts do.
class Grid {
 public:
  explicit Grid(Rng& rng) {
    for (auto& line : cells_) {
      for (float& cell : line) cell = 2.0f * rng.uniform() - 1.0f;
    }
  }

  /// Bilinear interpolation at (y, x), both in [0, kGridCells).
  float at(float y, float x) const {
    const auto top = static_cast<std::int64_t>(y), left = static_cast<std::int64_t>(x);
    const float down = y - static_cast<float>(top), right = x - static_cast<float>(left);
    const auto along = [&](std::int64_t line) {
      return cells_[line][left] * (1.0f - right) + cells_[line][(left + 1) % kGridCells] * right;
    };
    return along(top) * (1.0f - down) + along((top + 1) % kGridCells) * down;
  }

 private:
  float cells_[kGridCells][kGridCells];
};

Pattern make_pattern(const SyntheticSpec& spec, std::int64_t label) {
  Rng rng(spec.seed, "synthetic pattern", {static_cast<std::uint64_t>(label)});
  const auto scaled = [](std::int64_t pixel, std::int64_t side) {
    return static_cast<float>(pixel * kGridCells) / static_cast<float>(side);
  };
  Pattern pattern;
  pattern.reserve(static_cast<std::size_t>(spec.height * spec.width * spec.channels));
  for (std::int64_t channel = 0; channel < spec.channels; ++channel) {
    const Grid grid(rng);
    for (std::int64_t row = 0; row < spec.height; ++row) {
      for (std::int64_t column = 0; column < spec.width; ++column) {
        pattern.push_back(grid.at(scaled(row, spec.height), scaled(column, spec.width)));
      }
    }
  }
  return pattern;
}

/// Draws noise of mean 0 and variance 1, close to normal: the sum of the four bytes of one draw.
float noise_draw(Rng& rng) {
  constexpr float kMean = 4 * 127.5f;
  constexpr float kDeviation = 147.80166f;  // sqrt(4 (256^2 - 1) / 12)
  const std::uint32_t draw = rng();
  const std::uint32_t sum = (draw & 0xff) + (draw >> 8 & 0xff) + (draw >> 16 & 0xff) + (draw >> 24);
  return (static_cast<float>(sum) - kMean) / kDeviation;
}

/// Draws uniformly from [-side / 8, side / 8], as a non-negative offset modulo the side.
std::int64_t draw_shift(Rng& rng, std::int64_t side) {
  const std::int64_t reach = side / kShiftFraction;
  const auto shift = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(2 * reach + 1))) - reach;
  return (shift + side) % side;
}

void append_image(const SyntheticSpec& spec, const std::vector<Pattern>& patterns, Rng& rng, ImageStore& store) {
  const std::size_t label = rng.below(patterns.size());
  const std::size_t other = rng.below(patterns.size());
  const auto distraction = static_cast<float>(kLargestDistraction) * rng.uniform();
  const std::int64_t shift_down = draw_shift(rng, spec.height), shift_right = draw_shift(rng, spec.width);
  const auto amplitude = static_cast<float>(255.0 * kPatternAmplitude), noise = static_cast<float>(255.0 * spec.noise);
  std::size_t at = 0;  // the place in the distracting pattern, which is not shifted
  for (std::int64_t channel = 0; channel < spec.channels; ++channel) {
    for (std::int64_t row = 0; row < spec.height; ++row) {
      const std::int64_t line = (channel * spec.height + (row + shift_down) % spec.height) * spec.width;
      for (std::int64_t column = 0; column < spec.width; ++column, ++at) {
        const float shape = patterns[label][static_cast<std::size_t>(line + (column + shift_right) % spec.width)];
        const float value = 127.5f + amplitude * (shape + distraction * patterns[other][at]) + noise * noise_draw(rng);
        store.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f)));
      }
    }
  }
  store.labels.push_back(static_cast<std::uint8_t>(label));
}

ImageStore make_split(const SyntheticSpec& spec, const std::vector<Pattern>& patterns, std::uint64_t split,
                      std::int64_t samples) {
  ImageStore store{spec.height, spec.width, spec.channels, {}, {}};
  store.pixels.reserve(static_cast<std::size_t>(samples) * store.image_size());
  store.labels.reserve(static_cast<std::size_t>(samples));
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    Rng rng(spec.seed, "synthetic image", {split, static_cast<std::uint64_t>(sample)});
    append_image(spec, patterns, rng, store);
  }
  return store;
}

DatasetSplits load(const Settings& settings, const std::string& /*path*/, std::uint64_t seed) {
  const SyntheticSpec spec{settings.integer("height"),  settings.integer("width"), settings.integer("channels"),
                           settings.integer("classes"), settings.number("noise"),  seed};
  std::vector<Pattern> patterns;
  for (std::int64_t label = 0; label < spec.classes; ++label) patterns.push_back(make_pattern(spec, label));
  const ImageTraits traits{static_cast<int>(spec.classes),
                           std::vector<ChannelMoments>(static_cast<std::size_t>(spec.channels), {0.5f, 0.25f}), false};
  const auto make = [&](std::uint64_t split, const char* samples) {
    return std::make_shared<const ImageDataset>(make_split(spec, patterns, split, settings.integer(samples)), traits,
                                                settings);
  };
  return {make(0, "train_samples"), make(1, "test_samples")};
}

SettingSpecs specs() {
  SettingSpecs result{
      {"train_samples", std::int64_t{10000}, "training images", 1, 100'000'000},
      {"test_samples", std::int64_t{2000}, "test images", 1, 100'000'000},
      {"height", std::int64_t{32}, "rows of an image, in pixels", 1, 4096},
      {"width", std::int64_t{32}, "columns of an image, in pixels", 1, 4096},
      {"channels", std::int64_t{3}, "channels of an image", 1, 64},
      {"classes", std::int64_t{10}, "classes", 2, 256},
      {"noise", 0.2, "standard deviation of the pixel noise, as a fraction of the pixel range", 0.0, 10.0},
  };
  for (SettingSpec& spec : image_settings(false)) result.push_back(std::move(spec));
  return result;
}

const Registration<DatasetEntry> registration{
    {{"synthetic_images", "generated images with a pattern per class, of any size; needs no files", "", specs()},
     load,
     /*needs_path=*/false}};

}  // namespace
}  // namespace dragonn::data

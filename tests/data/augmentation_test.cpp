// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "data/images/image_dataset.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

constexpr std::int64_t kHeight = 6, kWidth = 5;

/// One image whose pixels are 1, 2, 3, ... (0 is what lies outside).
ImageDataset numbered(bool augment, bool mirrors, std::int64_t resize = 0) {
  ImageStore store{kHeight, kWidth, 1, {}, {0}};
  for (std::int64_t i = 1; i <= kHeight * kWidth; ++i) store.pixels.push_back(static_cast<std::uint8_t>(i));
  Settings settings(image_settings(augment));
  settings.set("normalize", false);
  settings.set("resize", resize);
  return ImageDataset(std::move(store), {1, {{}}, mirrors}, settings);
}

/// The pixel at (row, column) of the image, 0 outside.
float pixel(std::int64_t row, std::int64_t column) {
  if (row < 0 || row >= kHeight || column < 0 || column >= kWidth) return 0;
  return static_cast<float>(row * kWidth + column + 1) / 255.0f;
}

/// The crop of the padded image at (down, right), perhaps mirrored.
std::vector<float> crop(std::int64_t down, std::int64_t right, bool mirrored) {
  std::vector<float> result;
  for (std::int64_t row = 0; row < kHeight; ++row) {
    for (std::int64_t column = 0; column < kWidth; ++column) {
      result.push_back(pixel(row + down, (mirrored ? kWidth - 1 - column : column) + right));
    }
  }
  return result;
}

std::set<std::vector<float>> all_crops(bool mirrors) {
  std::set<std::vector<float>> crops;
  for (std::int64_t down = -4; down <= 4; ++down) {
    for (std::int64_t right = -4; right <= 4; ++right) {
      crops.insert(crop(down, right, false));
      if (mirrors) crops.insert(crop(down, right, true));
    }
  }
  return crops;
}

TEST_SUITE("data") {
  TEST_CASE("augmentation gives every crop within 4 pixels, mirrored or not, and nothing else") {
    for (const bool mirrors : {true, false}) {
      const ImageDataset dataset = numbered(true, mirrors);
      std::set<std::vector<float>> seen;
      for (std::uint64_t epoch = 0; epoch < 3000; ++epoch) {
        Rng rng(1, "augment", {epoch});
        seen.insert(read_sample(dataset, 0, &rng));
      }
      CHECK(seen == all_crops(mirrors));
    }
  }

  TEST_CASE("equal streams give equal pixels") {
    const ImageDataset dataset = numbered(true, true);
    Rng first(1, "augment", {5}), second(1, "augment", {5});
    CHECK(read_sample(dataset, 0, &first) == read_sample(dataset, 0, &second));
  }

  TEST_CASE("without a stream or the setting images stay as they are") {
    CHECK(read_sample(numbered(true, true), 0) == crop(0, 0, false));
    Rng rng(1, "augment", {5});
    CHECK(read_sample(numbered(false, true), 0, &rng) == crop(0, 0, false));
  }

  TEST_CASE("an enlarged image lies between the pixels of the same crop") {
    const ImageDataset stored = numbered(true, true), enlarged = numbered(true, true, 15);
    CHECK(enlarged.sample_shape() == Shape{15, 15, 1});
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
      Rng first(1, "augment", {epoch}), second(1, "augment", {epoch});
      const std::vector<float> small = read_sample(stored, 0, &first), large = read_sample(enlarged, 0, &second);
      for (std::size_t row = 0; row < 15; ++row) {
        for (std::size_t column = 1; column < 15; column += 3) {  // 3 outputs to a column: the middle one is the pixel
          const double y = std::clamp((static_cast<double>(row) + 0.5) * 6 / 15 - 0.5, 0.0, 5.0);
          const auto low = static_cast<std::size_t>(y), high = std::min<std::size_t>(low + 1, 5);
          const double above = small[low * 5 + column / 3], below = small[high * 5 + column / 3];
          const double expected = above + (below - above) * (y - static_cast<double>(low));
          CHECK(std::abs(large[row * 15 + column] - expected) < 1e-6);
        }
      }
    }
    CHECK(
        contains(error_of<ConfigError>([] { numbered(true, true, 5); }), "data.resize = 5: should be 0, or at least"));
  }
}

}  // namespace
}  // namespace dragonn::data

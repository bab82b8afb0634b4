// SPDX-License-Identifier: MIT
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "data/images/image_dataset.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

constexpr std::int64_t kHeight = 6, kWidth = 5;

/// One image whose pixels are 1, 2, 3, ... (0 is what lies outside).
ImageDataset numbered(bool augment, bool mirrors) {
  ImageStore store{kHeight, kWidth, 1, {}, {0}};
  for (std::int64_t i = 1; i <= kHeight * kWidth; ++i) store.pixels.push_back(static_cast<std::uint8_t>(i));
  Settings settings(image_settings(augment));
  settings.set("normalize", false);
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
}

}  // namespace
}  // namespace dragonn::data

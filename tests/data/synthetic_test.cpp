// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

Overrides small(std::int64_t train, std::int64_t test) {
  return {{"train_samples", train}, {"test_samples", test}, {"height", std::int64_t{16}}, {"width", std::int64_t{12}}};
}

/// The part of the test images whose nearest training image (least squares) has their label.
double nearest_neighbour_accuracy(const DatasetSplits& splits) {
  std::vector<std::vector<float>> known;
  for (std::size_t i = 0; i < splits.train->size(); ++i) known.push_back(read_sample(*splits.train, i));
  std::size_t correct = 0;
  for (std::size_t i = 0; i < splits.test->size(); ++i) {
    const std::vector<float> image = read_sample(*splits.test, i);
    const auto distance = [&](const std::vector<float>& other) {
      float sum = 0;
      for (std::size_t j = 0; j < image.size(); ++j) sum += (image[j] - other[j]) * (image[j] - other[j]);
      return sum;
    };
    const auto nearest = std::ranges::min_element(known, {}, distance) - known.begin();
    if (read_label(*splits.train, static_cast<std::size_t>(nearest)) == read_label(*splits.test, i)) ++correct;
  }
  return static_cast<double>(correct) / static_cast<double>(splits.test->size());
}

TEST_SUITE("data") {
  TEST_CASE("synthetic images have the size and the classes asked for") {
    const DatasetSplits splits = load_dataset("synthetic_images", "", small(200, 50));
    CHECK(splits.train->size() == 200);
    CHECK(splits.test->size() == 50);
    CHECK(splits.train->sample_shape() == Shape{16, 12, 3});
    std::vector<int> counts(10, 0);
    for (std::size_t i = 0; i < 200; ++i) ++counts[static_cast<std::size_t>(read_label(*splits.train, i))];
    CHECK(std::ranges::min(counts) > 0);
  }

  TEST_CASE("synthetic images of one pixel and of two classes exist") {
    const Overrides tiny{{"train_samples", std::int64_t{3}}, {"test_samples", std::int64_t{1}},
                         {"height", std::int64_t{1}},        {"width", std::int64_t{1}},
                         {"channels", std::int64_t{1}},      {"classes", std::int64_t{2}}};
    CHECK(load_dataset("synthetic_images", "", tiny).train->sample_shape() == Shape{1, 1, 1});
  }

  TEST_CASE("synthetic images depend on the seed alone") {
    const auto first = load_dataset("synthetic_images", "", small(20, 5), 3);
    const auto same = load_dataset("synthetic_images", "", small(20, 5), 3);
    const auto other = load_dataset("synthetic_images", "", small(20, 5), 4);
    const auto longer = load_dataset("synthetic_images", "", small(30, 5), 3);
    CHECK(read_sample(*first.train, 7) == read_sample(*same.train, 7));
    CHECK(read_sample(*first.train, 7) == read_sample(*longer.train, 7));
    CHECK(read_sample(*first.train, 7) != read_sample(*other.train, 7));
    CHECK(read_sample(*first.train, 0) != read_sample(*first.test, 0));
  }

  TEST_CASE("synthetic images are about normalized") {
    const auto splits = load_dataset("synthetic_images", "", small(200, 1));
    double sum = 0, squares = 0, count = 0;
    for (std::size_t i = 0; i < 200; ++i) {
      for (const float value : read_sample(*splits.train, i)) {
        sum += value;
        squares += static_cast<double>(value) * value;
        ++count;
      }
    }
    CHECK(std::abs(sum / count) < 0.3);
    CHECK(squares / count > 0.5);
    CHECK(squares / count < 2.0);
  }

  TEST_CASE("classes of synthetic images can be told apart, less well under more noise") {
    Overrides settings = small(500, 100);
    const double easy = nearest_neighbour_accuracy(load_dataset("synthetic_images", "", settings));
    settings.emplace_back("noise", 5.0);
    const double hard = nearest_neighbour_accuracy(load_dataset("synthetic_images", "", settings));
    CHECK(easy > 0.5);  // chance is 0.1
    CHECK(hard < easy);
  }
}

}  // namespace
}  // namespace dragonn::data

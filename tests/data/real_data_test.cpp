// SPDX-License-Identifier: MIT
/// Tests of the readers on real files, if the environment variable DRAGONN_DATA names a folder that has them.
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

struct Moments {
  double mean = 0, deviation = 0;
  std::vector<std::size_t> label_counts;
};

Moments moments_of(const Dataset& dataset) {
  Moments result;
  result.label_counts.resize(static_cast<std::size_t>(dataset.classes()));
  Sample sample{std::vector<float>(dataset.sample_shape().size()), {}};
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    sample.labels.clear();
    dynamic_cast<const SampleDataset&>(dataset).read(i, nullptr, sample.values, sample.labels);
    ++result.label_counts.at(static_cast<std::size_t>(sample.labels.at(0)));
    for (const float value : sample.values) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
  }
  const double count = static_cast<double>(dataset.size() * sample.values.size());
  result.mean = sum / count;
  result.deviation = std::sqrt(squares / count - result.mean * result.mean);
  return result;
}

TEST_SUITE("data") {
  TEST_CASE("real cifar10 files hold whole batches of ten classes, normalized") {
    const std::filesystem::path folder = real_data("cifar10");
    if (folder.empty()) return;
    const DatasetSplits splits = load_dataset("cifar10", folder);
    CHECK(splits.train->size() % 10000 == 0);
    CHECK((splits.test->size() == 2000 || splits.test->size() == 10000));
    const Moments moments = moments_of(*splits.train);
    for (const std::size_t count : moments.label_counts) CHECK(count > splits.train->size() / 20);
    CHECK(std::abs(moments.mean) < 0.02);
    CHECK(std::abs(moments.deviation - 1) < 0.02);
  }

  TEST_CASE("real mnist files hold 60000 and 10000 digits, normalized") {
    const std::filesystem::path folder = real_data("mnist");
    if (folder.empty()) return;
    const DatasetSplits splits = load_dataset("mnist", folder);
    CHECK(splits.train->size() == 60000);
    CHECK(splits.test->size() == 10000);
    const Moments moments = moments_of(*splits.train);
    CHECK(moments.label_counts == std::vector<std::size_t>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
    CHECK(std::abs(moments.mean) < 1e-3);
    CHECK(std::abs(moments.deviation - 1) < 1e-3);
  }
}

}  // namespace
}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include "kernels/gradient/exceedance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/targets.h>
#include <omp.h>

#include "core/rng.h"
#include "kernels/gradient/select.h"
#include "tests/kernels/host_views.h"
#include "tests/support/thread_counts.h"

using namespace dragonn;
using namespace dragonn::kernels;
using dragonn::kernels::test::in;

namespace {

/// Sizes around the widths of vectors, of the partial sums, of blocks and of the pieces given to threads.
constexpr std::size_t kSizes[] = {0, 1, 7, 15, 16, 17, 33, 255, 257, 1000, 8191, 8193, 32769, 70001, 300007};

/// Multiples of 1/4 up to 25: sums of their excesses and squares are exact.
std::vector<float> quarters(std::size_t size) {
  Rng rng(size, "exceedance test");
  std::vector<float> values(size);
  for (float& value : values) value = (static_cast<float>(rng.below(201)) - 100.0f) / 4;
  return values;
}

std::vector<float> normals(std::size_t size) {
  Rng rng(size, "exceedance test");
  std::vector<float> values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

Exceedances by_definition(const std::vector<float>& values, float threshold) {
  Exceedances result;
  for (const float value : values) {
    if (!(std::fabs(value) > threshold)) continue;
    const double excess = std::fabs(static_cast<double>(value)) - threshold;
    ++result.count;
    result.sum += excess;
    result.sum_squares += excess * excess;
    result.smallest = std::min(result.smallest, std::fabs(value));
  }
  return result;
}

void check_equal(const Exceedances& seen, const Exceedances& expected) {
  CHECK(seen.count == expected.count);
  CHECK(seen.sum == expected.sum);
  CHECK(seen.sum_squares == expected.sum_squares);
  CHECK(seen.smallest == expected.smallest);
}

void check_entries(const SparseVector& seen, const SparseVector& expected) {
  CHECK(std::ranges::equal(seen.indices.host(), expected.indices.host()));
  CHECK(std::ranges::equal(seen.values.host(), expected.values.host()));
}

double logs_by_definition(const std::vector<float>& values, double scale, double offset) {
  long double sum = 0;
  for (const float value : values) sum += std::log(scale * std::fabs(static_cast<double>(value)) + offset);
  return static_cast<double>(sum);
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("exceedances are those strictly above the threshold, exactly, at every length") {
    for (const std::size_t size : kSizes) {
      const std::vector<float> values = quarters(size);
      for (const float threshold : {0.0f, 2.25f, 24.75f, 25.0f}) {
        CAPTURE(size);
        CAPTURE(threshold);
        check_equal(exceedances(in(values), threshold), by_definition(values, threshold));
      }
    }
  }

  TEST_CASE("exceedances_and_entries gives the sums of exceedances and the entries of select_threshold") {
    SparseVector selected, expected;
    for (const std::size_t size : kSizes) {
      const std::vector<float> values = normals(size);
      for (const float min : {0.0f, 0.5f, 2.0f, 9.0f, std::numeric_limits<float>::infinity()}) {
        CAPTURE(size);
        CAPTURE(min);
        check_equal(exceedances_and_entries(in(values), 1.0f, min, selected), exceedances(in(values), 1.0f));
        select_threshold(in(values), min, expected);
        check_entries(selected, expected);
      }
    }
  }

  TEST_CASE("a NaN exceeds nothing, and nothing exceeds a threshold that is not finite") {
    std::vector<float> values = quarters(5000);
    for (float& value : values) value = value == 0 ? 1.0f : value;
    std::vector<float> cleaned = values;
    for (std::size_t i = 0; i < values.size(); i += 3) {
      values[i] = std::numeric_limits<float>::quiet_NaN();
      cleaned[i] = 0;
    }
    check_equal(exceedances(in(values), 0.5f), by_definition(cleaned, 0.5f));
    values[1] = std::numeric_limits<float>::infinity();
    check_equal(exceedances(in(values), std::numeric_limits<float>::infinity()), {});
    check_equal(exceedances(in(values), std::numeric_limits<float>::quiet_NaN()), {});
  }

  TEST_CASE("sum_magnitude_logs is the sum of the logarithms, over the whole range of the terms") {
    for (const std::size_t size : kSizes) {
      std::vector<float> values = normals(size);
      const double scale = 1 / std::sqrt(static_cast<double>(size) + 1) / 8;
      for (std::size_t i = 0; i < size; i += 3) values[i] *= 1e-20f;
      const double expected = logs_by_definition(values, scale, 2.2e-16);
      // A term is off by a few roundings of what is at most 40, of its place's product or of the sum.
      const double tolerance = 40 * static_cast<double>(size) * std::numeric_limits<double>::epsilon();
      CHECK(std::fabs(sum_magnitude_logs(in(values), scale, 2.2e-16) - expected) <= tolerance);
    }
    const std::vector<float> zeros(100000, 0.0f);
    CHECK(sum_magnitude_logs(in(zeros), 1.0, 1e-18) == doctest::Approx(100000 * std::log(1e-18)).epsilon(1e-12));
    const std::vector<float> ones(100000, -1.0f);
    CHECK(sum_magnitude_logs(in(ones), 1.0, 1.0) == doctest::Approx(100000 * std::log(2.0)).epsilon(1e-12));
  }

  TEST_CASE("sums over exceedances do not depend on the number of threads") {
    const std::vector<float> values = normals(300007);
    const int threads_before = omp_get_max_threads();
    const Exceedances first = exceedances(in(values), 0.7f);
    const double first_logs = sum_magnitude_logs(in(values), 0.1, 1e-15);
    SparseVector selected, expected;
    select_threshold(in(values), 1.5f, expected);
    for (const int threads : dragonn::test::kThreadCounts) {
      omp_set_num_threads(threads);
      check_equal(exceedances_and_entries(in(values), 0.7f, 1.5f, selected), first);
      check_entries(selected, expected);
      CHECK(sum_magnitude_logs(in(values), 0.1, 1e-15) == first_logs);
    }
    omp_set_num_threads(threads_before);
  }

  TEST_CASE("sums over exceedances have the same bits on every instruction set") {
    const std::vector<float> values = normals(5003);
    const Exceedances first = exceedances(in(values), 0.7f);
    const double first_logs = sum_magnitude_logs(in(values), 0.1, 1e-15);
    for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
      hwy::SetSupportedTargetsForTest(rest & -rest);
      hwy::GetChosenTarget().DeInit();
      check_equal(exceedances(in(values), 0.7f), first);
      CHECK(sum_magnitude_logs(in(values), 0.1, 1e-15) == first_logs);
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
}

// SPDX-License-Identifier: MIT
// Choices among entries, and moving them, on every device, against plain loops.
#include <map>

#include <doctest/doctest.h>

#include "kernels/gradient/decode.h"
#include "kernels/gradient/exceedance.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"
#include "tests/kernels/gradient_reference.h"

using namespace dragonn;
using namespace dragonn::kernels;
using namespace dragonn::test;

namespace {

using Vector = std::vector<float>;
constexpr std::size_t kSizes[] = {1, 31, 2047, 2048, 2049, 50001};

/// All of the values as a list.
Entries all_of(const Vector& values) {
  Entries entries;
  for (std::size_t i = 0; i < values.size(); ++i) entries.emplace_back(static_cast<std::uint32_t>(3 * i), values[i]);
  return entries;
}

}  // namespace

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("the k-th largest magnitude is exact, and its bound is reached by k values or more") {
    MagnitudeScratch scratch(device);
    for (const std::size_t size : kSizes) {
      const Vector values = gradient_values(size, 1);
      Vector magnitudes;
      for (const float value : values) magnitudes.push_back(std::fabs(value));
      std::ranges::sort(magnitudes, std::greater<>());
      const Buffer<float> buffer = on_device(values, device);
      for (const std::size_t k : {std::size_t{1}, size / 100 + 1, size / 2 + 1, size}) {
        CHECK(kth_largest_magnitude(buffer.view(), k, scratch) == magnitudes[k - 1]);
        const float bound = magnitude_lower_bound(buffer.view(), k, scratch);
        CHECK(bound <= magnitudes[k - 1]);
        CHECK((k == size || bound >= magnitudes[k - 1] * 15 / 16));
      }
      CHECK(kth_largest_magnitude(buffer.view(), size + 1, scratch) == 0);
    }
  }

  DRAGONN_DEVICE_TEST("the k largest entries are kept in order, ties to the lower index") {
    MagnitudeScratch scratch(device);
    for (const std::size_t size : kSizes) {
      const Entries entries = all_of(gradient_values(size, 2));
      const SparseVector list = list_on_device(entries, device);
      SparseVector kept(device), late(device);
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, size / 10 + 1, size / 2 + 1, size, size + 1}) {
        const float smallest = keep_largest(list, k, scratch, kept);
        const Entries expected = largest_of(entries, k);
        CHECK(entries_of(kept) == expected);
        float min = expected.empty() ? 0.0f : std::numeric_limits<float>::infinity();
        for (const auto& [index, value] : expected) min = std::min(min, std::fabs(value));
        CHECK(smallest == min);
        start_keep_largest(list, k, scratch, late);
        CHECK(smallest_kept(scratch) == min);
        CHECK(entries_of(late) == expected);
      }
    }
  }

  DRAGONN_DEVICE_TEST("top-k is exact whether the bound of the candidates was right or too high") {
    const Vector values = gradient_values(50001, 3);
    const Buffer<float> acc = on_device(values, device);
    MagnitudeScratch scratch(device);
    SparseVector candidates(device), selected(device);
    for (const float bound : {1.0f, 3.0f, 100.0f}) {
      select_threshold(acc.view(), bound, candidates);
      select_largest(acc.view(), 777, candidates, bound, scratch, selected);
      CHECK(entries_of(selected) == largest_of(reaching(values, 0, 0, values.size()), 777));
    }
  }

  DRAGONN_DEVICE_TEST("filtering keeps the entries that reach a threshold, and counting counts them") {
    for (const std::size_t size : kSizes) {
      const Entries entries = all_of(gradient_values(size, 4));
      const SparseVector list = list_on_device(entries, device);
      SparseVector selected(device);
      for (const float threshold : {0.0f, 0.5f, 2.0f, 100.0f}) {
        Entries expected = entries;
        std::erase_if(expected, [&](const auto& entry) { return std::fabs(entry.second) < threshold; });
        filter_threshold(list, threshold, selected);
        CHECK(entries_of(selected) == expected);
        CHECK(count_threshold(list, threshold) == expected.size());
      }
    }
  }

  DRAGONN_DEVICE_TEST("gather, scatter and copy touch the entries only, and pass by empty slots") {
    const Vector values = gradient_values(5000, 6);
    Entries entries;
    for (std::uint32_t i = 2; i < 5000; i += 3) entries.emplace_back(i, 0.5f);
    Buffer<float> dense = on_device(values, device);
    const SparseVector list = list_on_device(entries, device);
    Buffer<float> gathered = poisoned(entries.size(), device);
    gather(dense.view(), list.indices.view(), gathered.view());
    const Vector seen = to_host(gathered.view());
    for (std::size_t entry = 0; entry < entries.size(); ++entry) CHECK(seen[entry] == values[entries[entry].first]);
    Entries padded = entries;
    padded.emplace_back(kEmptySlot, 0.0f);
    Vector expected = values;
    for (const auto& [index, value] : entries) expected[index] += value;
    scatter_add(list_on_device(padded, device), dense.view());
    CHECK(to_host(dense.view()) == expected);
    for (const auto& [index, value] : entries) expected[index] = 0;
    scatter_zero(list_on_device(padded, device).indices.view(), dense.view());
    CHECK(to_host(dense.view()) == expected);
    SparseVector copy(device);
    copy_entries(list, copy);
    CHECK(entries_of(copy) == entries);
  }

  DRAGONN_DEVICE_TEST("exceedances and logarithms are those of plain sums in double") {
    for (const std::size_t size : kSizes) {
      const Vector values = gradient_values(size, 7);
      const Buffer<float> buffer = on_device(values, device);
      constexpr float kThreshold = 0.3f;
      std::size_t count = 0;
      double sum = 0, squares = 0, logs = 0, log_magnitudes = 0;
      for (const float value : values) {
        const double excess = std::fabs(static_cast<double>(value)) - static_cast<double>(kThreshold);
        if (std::fabs(value) > kThreshold) {
          ++count;
          sum += excess;
          squares += excess * excess;
        }
        logs += std::log(0.1 * std::fabs(static_cast<double>(value)) + 1e-3);
        log_magnitudes += std::fabs(std::log(0.1 * std::fabs(static_cast<double>(value)) + 1e-3));
      }
      SparseVector selected(device);
      const Exceedances above = exceedances_and_entries(buffer.view(), kThreshold, 0.5f, selected);
      CHECK(entries_of(selected) == reaching(values, 0.5f, 0, size));
      // As the moments of gradient_pass_device_test.cpp; a logarithm of a product of 16 has an error of 16 roundings.
      CHECK(above.count == count);
      CHECK(std::fabs(above.sum - sum) <= 1e-11 * sum);
      CHECK(std::fabs(above.sum_squares - squares) <= 1e-11 * squares);
      CHECK(exceedances(buffer.view(), kThreshold).sum == above.sum);
      CHECK(std::fabs(sum_magnitude_logs(buffer.view(), 0.1, 1e-3) - logs) <= 1e-11 * log_magnitudes);
    }
  }

  DRAGONN_DEVICE_TEST("lists are summed in their order, ascending, and what cancels stays") {
    constexpr std::size_t kNumel = 70001;
    ListDecoder decoder(kNumel, device);
    SparseVector sum(device);
    for (std::uint64_t round = 0; round < 3; ++round) {
      std::map<std::uint32_t, float> expected;
      for (std::uint64_t rank = 0; rank < 5; ++rank) {
        Entries entries = reaching(gradient_values(kNumel, 10 * round + rank), 2, 0, kNumel);
        if (rank == 0) entries.emplace_back(kNumel - 1, -0.0f);
        if (rank == 3) entries = {{5, 1.0f}, {kEmptySlot, 0.0f}};
        if (rank == 4) entries = {{5, -1.0f}, {70000, 2.0f}};
        for (const auto& [index, value] : entries) {
          if (index == kEmptySlot) continue;
          const auto [place, is_first] = expected.try_emplace(index, value);
          if (!is_first) place->second += value;
        }
        const SparseVector list = list_on_device(entries, device);
        decoder.add(list.indices.view(), list.values.view());
      }
      decoder.finish(sum);
      CHECK(entries_of(sum) == Entries(expected.begin(), expected.end()));
    }
    decoder.finish(sum);
    CHECK(sum.empty());
  }
}

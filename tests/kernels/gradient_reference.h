// SPDX-License-Identifier: MIT
/// Gradient reference: plain loops with the results of the passes over gradients, and lists of entries between host and
/// device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/rng.h"
#include "core/sparse_vector.h"
#include "tests/support/devices.h"

namespace dragonn::test {

using Entries = std::vector<std::pair<std::uint32_t, float>>;

/// Returns normal values; every seventh is one of few, so that there are ties, and every eleventh is 0.
inline std::vector<float> gradient_values(std::size_t size, std::uint64_t seed) {
  Rng rng(seed, "gradient");
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = rng.normal();
    if (i % 7 == 0) values[i] = std::copysign(std::round(4 * std::fabs(values[i])) / 4, values[i]);
    if (i % 11 == 0) values[i] = 0;
  }
  return values;
}

inline Entries entries_of(const SparseVector& list) {
  const std::vector<std::uint32_t> indices = to_host(list.indices.view());
  const std::vector<float> values = to_host(list.values.view());
  Entries result;
  for (std::size_t entry = 0; entry < indices.size(); ++entry) result.emplace_back(indices[entry], values[entry]);
  return result;
}

inline SparseVector list_on_device(const Entries& entries, const Device& device) {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  for (const auto& [index, value] : entries) {
    indices.push_back(index);
    values.push_back(value);
  }
  SparseVector list;
  list.indices = on_device(indices, device);
  list.values = on_device(values, device);
  return list;
}

/// Entries of [begin, end) that reach the threshold and are not 0.
inline Entries reaching(const std::vector<float>& values, float threshold, std::size_t begin, std::size_t end) {
  Entries result;
  for (std::size_t i = begin; i < end; ++i) {
    if (std::fabs(values[i]) >= threshold && values[i] != 0)
      result.emplace_back(static_cast<std::uint32_t>(i), values[i]);
  }
  return result;
}

/// The k of largest magnitude, ties to the lower index, in the order of the list.
inline Entries largest_of(Entries entries, std::size_t k) {
  std::ranges::stable_sort(entries,
                           [](const auto& a, const auto& b) { return std::fabs(a.second) > std::fabs(b.second); });
  entries.resize(std::min(k, entries.size()));
  std::ranges::sort(entries);
  return entries;
}

}  // namespace dragonn::test

// SPDX-License-Identifier: MIT
/// Search inputs: inputs and counts for tests that compare a search for a threshold with counting every trial.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/rng.h"

namespace dragonn::compress::test {

/// Returns normal values whose tails a power makes heavier, some zeros, and many ties if `power` is 0.
inline std::vector<float> search_input(std::size_t size, float power, std::uint64_t seed) {
  Rng rng(seed, "search input", {size});
  std::vector<float> acc(size);
  for (float& value : acc) {
    const float normal = rng.normal();
    value = power == 0 ? std::round(normal) : normal * std::pow(std::fabs(normal), power);
    if (rng.below(10) == 0) value = 0;
  }
  return acc;
}

/// Returns how many values reach the threshold and are not zero.
inline std::size_t naive_count(const std::vector<float>& acc, float threshold) {
  std::size_t count = 0;
  for (const float value : acc) count += std::fabs(value) >= threshold && value != 0 ? 1 : 0;
  return count;
}

/// Calls body(acc, density) for a range of sizes, tails and densities.
template <class Body>
void for_each_search_input(const Body& body) {
  for (const std::size_t size : {10, 300, 5000, 20000}) {
    for (const float power : {0.0f, 0.5f, 1.0f, 4.0f}) {
      for (const double density : {0.5, 0.05, 0.01, 0.001}) {
        for (std::uint64_t seed = 0; seed < 2; ++seed) body(search_input(size, power, seed), density);
      }
    }
  }
}

}  // namespace dragonn::compress::test

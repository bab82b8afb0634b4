// SPDX-License-Identifier: MIT
#include "kernels/magnitude.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "kernels/gradient_pass_chunks.h"
#include "kernels/gradient_pass_sweep.h"
#include "kernels/select.h"
#include "kernels/sweep_count.h"

namespace dragonn::kernels {
namespace {

/// Non-negative floats order as their bits do.
constexpr std::uint32_t kInfinityKey = 0x7f800000;

std::uint32_t magnitude_key(float value) {
  const std::uint32_t key = std::bit_cast<std::uint32_t>(value) & 0x7fffffff;
  return key > kInfinityKey ? 0 : key;
}

void collect_keys(std::span<const float> values, Buffer<std::uint32_t>& keys) {
  keys.resize_discard(values.size());
  std::ranges::transform(values, keys.data(), magnitude_key);
}

/// A digit of the radix selection. 31 bits in three digits: the first holds the exponent and three bits more.
struct Digit {
  int shift;
  std::uint32_t values;
  std::uint32_t of(std::uint32_t key) const { return key >> shift & (values - 1); }
};
constexpr std::array kDigits{Digit{20, 2048}, Digit{9, 2048}, Digit{0, 512}};

/// The digit of the k-th largest key, from the digits' counts; *k becomes its rank among the keys with that digit.
std::uint32_t find_digit(const std::uint32_t* histogram, std::uint32_t values, std::size_t* k) {
  std::uint32_t digit = values;
  do {
    --digit;
    if (histogram[digit] >= *k) break;
    *k -= histogram[digit];
  } while (digit > 0);
  return digit;
}

/// The k-th largest of the keys, 0 < k <= keys.size(). Overwrites them.
std::uint32_t kth_largest_key(std::span<std::uint32_t> keys, std::size_t k) {
  std::array<std::uint32_t, 2048> histogram;
  std::uint32_t result = 0;
  for (const Digit& digit : kDigits) {
    histogram.fill(0);
    for (const std::uint32_t key : keys) ++histogram[digit.of(key)];
    const std::uint32_t found = find_digit(histogram.data(), digit.values, &k);
    result |= found << digit.shift;
    std::size_t left = 0;
    for (const std::uint32_t key : keys) {
      keys[left] = key;
      left += digit.of(key) == found ? 1 : 0;
    }
    keys = keys.first(left);
  }
  return result;
}

/// Leading bits of a magnitude that the lower bound looks at: exponent and four bits of the fraction.
constexpr Digit kBoundDigit{19, 4096};

}  // namespace

void MagnitudeScratch::reserve(std::size_t numel) {
  keys.resize_discard(numel);
  candidates.resize_discard(numel);
  candidates.clear();
}

float kth_largest_magnitude(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  DRAGONN_CHECK(k > 0, "the {}-th largest magnitude; ranks start at 1", k);
  if (k > values.size()) return 0;
  collect_keys(values.host(), scratch.keys);
  return std::bit_cast<float>(kth_largest_key(scratch.keys.host(), k));
}

float keep_largest(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  if (k == 0 || entries.empty()) {
    kept.clear();
    return 0;
  }
  k = std::min(k, entries.size());
  const auto indices = entries.indices.host();
  const auto values = entries.values.host();
  collect_keys(values, scratch.keys);
  const std::uint32_t smallest = kth_largest_key(scratch.keys.host(), k);
  const auto above = static_cast<std::size_t>(
      std::ranges::count_if(values, [&](float value) { return magnitude_key(value) > smallest; }));
  std::size_t ties = k - above;
  kept.resize_discard(k);
  std::size_t count = 0;
  for (std::size_t entry = 0; entry < values.size(); ++entry) {
    const std::uint32_t key = magnitude_key(values[entry]);
    if (key < smallest) continue;
    if (key == smallest) {
      if (ties == 0) continue;
      --ties;
    }
    kept.indices.data()[count] = indices[entry];
    kept.values.data()[count++] = values[entry];
  }
  return std::bit_cast<float>(smallest);
}

float magnitude_lower_bound(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  const std::span<const float> all = values.host();
  if (k == 0 || k >= all.size()) return 0;
  count_swept(all.size());
  // Histograms per piece, so few pieces: one for each thread's worth of work.
  const detail::Chunks chunks(all.size(), std::max<std::size_t>(1u << 16, all.size() / 16));
  scratch.histogram.resize_discard(chunks.count() * kBoundDigit.values);
  std::uint32_t* const histograms = scratch.histogram.data();
  std::fill_n(histograms, scratch.histogram.size(), 0);
  for_each_chunk(chunks, [&](std::size_t chunk) {
    std::uint32_t* const histogram = histograms + chunk * kBoundDigit.values;
    for (std::size_t i = chunks.begin(chunk); i < chunks.end(chunk); ++i)
      ++histogram[kBoundDigit.of(magnitude_key(all[i]))];
  });
  for (std::size_t i = kBoundDigit.values; i < scratch.histogram.size(); ++i) {
    histograms[i % kBoundDigit.values] += histograms[i];
  }
  return std::bit_cast<float>(find_digit(histograms, kBoundDigit.values, &k) << kBoundDigit.shift);
}

float select_largest(View<const float> values, std::size_t k, const SparseVector& candidates, float bound,
                     MagnitudeScratch& scratch, SparseVector& selected) {
  // Fewer than k candidates are enough if the bound left out nothing but zeros.
  if (candidates.size() >= k || bound <= 0) return keep_largest(candidates, k, scratch, selected);
  select_threshold(values, magnitude_lower_bound(values, k, scratch), scratch.candidates);
  return keep_largest(scratch.candidates, k, scratch, selected);
}

Moments magnitude_moments(View<const float> values) {
  Moments moments;
  detail::sweep_moments({.gradient = values.host().data()}, {0, values.size()}, moments);
  return moments;
}

}  // namespace dragonn::kernels

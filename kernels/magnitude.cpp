// SPDX-License-Identifier: MIT
#include "kernels/magnitude.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/gradient_pass_chunks.h"
#include "kernels/gradient_pass_sweep.h"
#include "kernels/magnitude_digits.h"
#include "kernels/same_device.h"
#include "kernels/select.h"
#include "kernels/sweep_count.h"

namespace dragonn::kernels {
namespace {

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

/// Pieces with a histogram each: few, since every one is as much work as a histogram is long.
detail::Chunks histogram_pieces(std::size_t size) {
  return {size, std::max<std::size_t>(1u << 16, size / 16)};
}

/// How many magnitudes have each value of the digit. `histograms` is room for it.
std::span<const std::uint32_t> count_digits(std::span<const float> values, const Digit& digit,
                                            Buffer<std::uint32_t>& histograms) {
  const detail::Chunks pieces = histogram_pieces(values.size());
  histograms.resize_discard(pieces.count() * digit.values);
  const std::span<std::uint32_t> all = histograms.host();
  for_each_chunk(pieces, [&](std::size_t piece) {
    const std::span<std::uint32_t> histogram = all.subspan(piece * digit.values, digit.values);
    std::ranges::fill(histogram, 0);
    for (std::size_t i = pieces.begin(piece); i < pieces.end(piece); ++i)
      ++histogram[digit.of(magnitude_key(values[i]))];
  });
  const std::span<std::uint32_t> total = all.first(digit.values);
  for (std::size_t i = total.size(); i < all.size(); ++i) total[i % digit.values] += all[i];
  return total;
}

/// The keys whose digit is `wanted`, in the order of the values.
std::span<std::uint32_t> collect_keys(std::span<const float> values, const Digit& digit, std::uint32_t wanted,
                                      Buffer<std::uint32_t>& keys) {
  keys.resize_discard(values.size());
  std::uint32_t* const collected = keys.data();
  const detail::Chunks pieces(values.size(), 32768);
  std::array<std::size_t, detail::kMaxChunks> counts{};
  for_each_chunk(pieces, [&](std::size_t piece) {
    // Every key is written, and stays if it is counted.
    std::uint32_t* const begin = collected + pieces.begin(piece);
    std::uint32_t* next = begin;
    for (std::size_t i = pieces.begin(piece); i < pieces.end(piece); ++i) {
      *next = magnitude_key(values[i]);
      next += digit.of(*next) == wanted ? 1 : 0;
    }
    counts[piece] = static_cast<std::size_t>(next - begin);
  });
  std::size_t total = 0;
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    std::memmove(collected + total, collected + pieces.begin(piece), counts[piece] * sizeof(std::uint32_t));
    total += counts[piece];
  }
  return keys.host().first(total);
}

/// The key of the k-th largest magnitude, 0 < k <= values.size(). All values are read twice, those that share the first
/// digit with the result, a small part, again.
std::uint32_t kth_largest_key(std::span<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  std::uint32_t found = find_digit(count_digits(values, kDigits[0], scratch.histogram).data(), kDigits[0].values, &k);
  std::span<std::uint32_t> keys = collect_keys(values, kDigits[0], found, scratch.keys);
  std::uint32_t result = found << kDigits[0].shift;
  std::array<std::uint32_t, 2048> histogram;
  for (const Digit& digit : std::span(kDigits).subspan(1)) {
    histogram.fill(0);
    for (const std::uint32_t key : keys) ++histogram[digit.of(key)];
    found = find_digit(histogram.data(), digit.values, &k);
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

/// Drops the last `excess` of the entries whose key is `key`.
void drop_last_ties(SparseVector& entries, std::uint32_t key, std::size_t excess) {
  const auto values = entries.values.host();
  const auto ties = std::ranges::count_if(values, [&](float value) { return magnitude_key(value) == key; });
  std::size_t ties_left = static_cast<std::size_t>(ties) - excess;
  std::size_t count = 0;
  for (std::size_t entry = 0; entry < values.size(); ++entry) {
    if (magnitude_key(values[entry]) == key) {
      if (ties_left == 0) continue;
      --ties_left;
    }
    entries.indices.data()[count] = entries.indices.data()[entry];
    values[count++] = values[entry];
  }
  entries.truncate(count);
}

float kth_largest_cpu(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  return std::bit_cast<float>(kth_largest_key(values.host(), k, scratch));
}

float keep_largest_cpu(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  const std::uint32_t smallest = kth_largest_key(entries.values.host(), k, scratch);
  filter_threshold(entries, std::bit_cast<float>(smallest), kept);
  if (kept.size() > k) drop_last_ties(kept, smallest, kept.size() - k);
  return std::bit_cast<float>(smallest);
}

float lower_bound_cpu(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  const auto histogram = count_digits(values.host(), kBoundDigit, scratch.histogram);
  return std::bit_cast<float>(find_digit(histogram.data(), kBoundDigit.values, &k) << kBoundDigit.shift);
}

Moments moments_cpu(View<const float> values) {
  Moments moments;
  detail::sweep_moments({.gradient = values.data()}, {0, values.size()}, moments);
  return moments;
}

}  // namespace

void MagnitudeScratch::reserve(std::size_t numel) {
  if (!keys.device().is_cpu()) return;
  keys.resize_discard(numel);
  histogram.resize_discard(histogram_pieces(numel).count() * kBoundDigit.values);
  candidates.resize_discard(numel);
  candidates.clear();
}

KthLargestTable& kth_largest_table() {
  static KthLargestTable table("kth_largest_magnitude", kth_largest_cpu);
  return table;
}
KeepLargestTable& keep_largest_table() {
  static KeepLargestTable table("keep_largest", keep_largest_cpu);
  return table;
}
LowerBoundTable& magnitude_lower_bound_table() {
  static LowerBoundTable table("magnitude_lower_bound", lower_bound_cpu);
  return table;
}
MomentsTable& magnitude_moments_table() {
  static MomentsTable table("magnitude_moments", moments_cpu);
  return table;
}

float kth_largest_magnitude(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  DRAGONN_CHECK(k > 0, "the {}-th largest magnitude; ranks start at 1", k);
  if (k > values.size()) return 0;
  check_same_device("kth_largest_magnitude", values.device(), scratch.keys.device());
  return kth_largest_table().at(values.device())(values, k, scratch);
}

float keep_largest(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  if (k == 0 || entries.empty()) {
    kept.clear();
    return 0;
  }
  check_same_device("keep_largest", entries.device(), kept.device());
  check_same_device("keep_largest", entries.device(), scratch.keys.device());
  return keep_largest_table().at(entries.device())(entries, std::min(k, entries.size()), scratch, kept);
}

float magnitude_lower_bound(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  if (k == 0 || k >= values.size()) return 0;
  check_same_device("magnitude_lower_bound", values.device(), scratch.keys.device());
  count_swept(values.size());
  return magnitude_lower_bound_table().at(values.device())(values, k, scratch);
}

float select_largest(View<const float> values, std::size_t k, const SparseVector& candidates, float bound,
                     MagnitudeScratch& scratch, SparseVector& selected) {
  // Fewer than k candidates are enough if the bound left out nothing but zeros.
  if (candidates.size() >= k || bound <= 0) return keep_largest(candidates, k, scratch, selected);
  select_threshold(values, magnitude_lower_bound(values, k, scratch), scratch.candidates);
  return keep_largest(scratch.candidates, k, scratch, selected);
}

Moments magnitude_moments(View<const float> values) {
  return magnitude_moments_table().at(values.device())(values);
}

}  // namespace dragonn::kernels

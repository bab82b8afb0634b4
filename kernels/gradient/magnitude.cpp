// SPDX-License-Identifier: MIT
#include "kernels/gradient/magnitude.h"

#include <algorithm>
#include <bit>

#include "kernels/devices.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/gradient/key_rank.h"
#include "kernels/gradient/select.h"
#include "kernels/operation.h"

namespace dragonn::kernels {
namespace {

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
  return std::bit_cast<float>(detail::kth_largest_key(values.host(), k, scratch));
}

float keep_largest_cpu(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  const std::uint32_t smallest = detail::kth_largest_key(entries.values.host(), k, scratch);
  filter_threshold(entries, std::bit_cast<float>(smallest), kept);
  if (kept.size() > k) drop_last_ties(kept, smallest, kept.size() - k);
  return std::bit_cast<float>(smallest);
}

void start_keep_largest_cpu(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  scratch.smallest.data()[0] = keep_largest_cpu(entries, k, scratch, kept);
}

float lower_bound_cpu(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  constexpr detail::Bins kBins{0, kBoundDigit.shift, kBoundDigit.values};
  const auto counts = detail::count_bins(std::span<const float>(values.host()), kBins, scratch.histogram);
  return std::bit_cast<float>(detail::find_bin(counts, &k) << kBins.shift);
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
  histogram.resize_discard(detail::histogram_capacity(numel, kBoundDigit.values));
  smallest.resize_discard(1);
  candidates.resize_discard(numel);
  candidates.clear();
}

constinit decltype(kth_largest_magnitude) kth_largest_magnitude(
    "kth_largest_magnitude", kth_largest_cpu, [](auto values, std::size_t k, MagnitudeScratch&) {
      DRAGONN_CHECK(k > 0, "the {}-th largest magnitude; ranks start at 1", k);
      return k <= values.size();
    });
constinit decltype(keep_largest_rows) keep_largest_rows("keep_largest", keep_largest_cpu);
constinit decltype(start_keep_largest_rows) start_keep_largest_rows("start_keep_largest", start_keep_largest_cpu);
constinit decltype(magnitude_lower_bound) magnitude_lower_bound("magnitude_lower_bound", lower_bound_cpu,
                                                                [](auto values, std::size_t k, MagnitudeScratch&) {
                                                                  if (k == 0 || k >= values.size()) return false;
                                                                  count_swept(values.size());
                                                                  return true;
                                                                });
constinit decltype(magnitude_moments) magnitude_moments("magnitude_moments", moments_cpu);
float keep_largest(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  if (k == 0 || entries.empty()) {
    kept.clear();
    return 0;
  }
  return keep_largest_rows(entries, std::min(k, entries.size()), scratch, kept);
}

void start_keep_largest(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  if (k == 0 || entries.empty()) {
    kept.clear();
    return scratch.smallest.resize_discard(0);
  }
  scratch.smallest.resize_discard(1);
  start_keep_largest_rows(entries, std::min(k, entries.size()), scratch, kept);
}

float smallest_kept(const MagnitudeScratch& scratch) {
  if (scratch.smallest.size() == 0) return 0;
  synchronize(scratch.device());
  return scratch.smallest.host()[0];
}

void select_largest(View<const float> values, std::size_t k, const SparseVector& candidates, float bound,
                    MagnitudeScratch& scratch, SparseVector& selected) {
  // Fewer than k candidates are enough if the bound left out nothing but zeros.
  if (candidates.size() >= k || bound <= 0) return start_keep_largest(candidates, k, scratch, selected);
  select_threshold(values, magnitude_lower_bound(values, k, scratch), scratch.candidates);
  start_keep_largest(scratch.candidates, k, scratch, selected);
}

namespace {

std::size_t line_count(std::size_t numel) {
  return (numel + kLineElements - 1) / kLineElements;
}

float sample_cpu(View<const float> values, const SamplePlan& plan, SampleScratch& scratch) {
  return detail::sample_job({.gradient = values.data()}, plan, values.size(), scratch);
}

}  // namespace

void SampleScratch::reserve(std::size_t numel) {
  if (!magnitudes.device().is_cpu()) return;
  magnitudes.resize_discard(numel);
  ranking.reserve(numel);
}

std::size_t sample_strata(std::size_t numel, std::size_t stride) {
  return (line_count(numel) + stride - 1) / stride;
}

std::size_t sample_size(std::size_t numel, const SamplePlan& plan) {
  const std::size_t strata = sample_strata(numel, plan.stride);
  if (strata == 0) return 0;
  const std::size_t last_line = sampled_line(numel, plan, strata - 1);
  return (strata - 1) * kLineElements + std::min(kLineElements, numel - last_line);
}

constinit decltype(sample_threshold) sample_threshold("sample_threshold", sample_cpu);

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
/// Samples of magnitudes, from which thresholds are estimated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.h"
#include "core/rng.h"
#include "core/view.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::kernels {

/// The elements of one cache line: the unit of sampling, because a line costs the same as one element of it.
inline constexpr std::size_t kLineElements = 16;

/// A stratified sampling of whole cache lines: of every `stride` consecutive lines one, at a place drawn from `key` and
/// the stratum's number, so that the sample has no period that could match one of the gradient's layout.
struct SamplePlan {
  std::size_t stride = 1;  ///< lines per sampled line; 1 samples everything
  std::uint64_t key = 0;
  std::size_t rank = 1;  ///< the threshold is the rank-th largest magnitude of the sample; 0 if the sample is smaller
};

/// Returns the first element of the line that is sampled from stratum `stratum` of a vector of `numel` elements.
constexpr std::size_t sampled_line(std::size_t numel, const SamplePlan& plan, std::size_t stratum) {
  __extension__ using Wide = unsigned __int128;
  const std::size_t lines = (numel + kLineElements - 1) / kLineElements;
  const std::size_t first = stratum * plan.stride;
  const std::size_t choices = lines - first < plan.stride ? lines - first : plan.stride;
  const auto choice = static_cast<std::size_t>(static_cast<Wide>(mix64(plan.key + stratum)) * choices >> 64);
  return (first + choice) * kLineElements;
}
/// Returns the number of strata, which is that of the sampled lines.
std::size_t sample_strata(std::size_t numel, std::size_t stride);
/// Returns the elements of the sample: kLineElements for each stratum, fewer only if the vector's last, shorter line is
/// drawn.
std::size_t sample_size(std::size_t numel, const SamplePlan& plan);

/// Buffers of a sampling, reused.
struct SampleScratch {
  SampleScratch() = default;
  /// Makes buffers for vectors on `device`.
  explicit SampleScratch(const Device& device) : magnitudes(0, device), ranking(device) {}

  const Device& device() const { return magnitudes.device(); }

  Buffer<float> magnitudes;  ///< the sample; a NaN counts as 0
  MagnitudeScratch ranking;

  /// Makes room as MagnitudeScratch::reserve does.
  void reserve(std::size_t numel);
};

/// Returns the threshold that `plan` gives on `values` ([n] float32, on the scratch's device; the same on every
/// device). Reads one line of every `stride`. @throws DeviceError as kernels/gradient/magnitude.h.
extern Operation<float(View<const float> values, const SamplePlan& plan, SampleScratch& scratch)> sample_threshold;

}  // namespace dragonn::kernels

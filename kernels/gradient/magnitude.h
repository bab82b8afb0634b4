// SPDX-License-Identifier: MIT
/// Order statistics and moments of magnitudes |x|.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/buffer.h"
#include "core/rng.h"
#include "core/sparse_vector.h"
#include "core/view.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// Returns a key that orders as |value| does: non-negative floats order as their bits do. A NaN counts as 0.
constexpr std::uint32_t magnitude_key(float value) {
  constexpr std::uint32_t kInfinityKey = 0x7f800000;
  const std::uint32_t key = std::bit_cast<std::uint32_t>(value) & 0x7fffffff;
  return key > kInfinityKey ? 0 : key;
}

/// A digit of the radix selection.
struct Digit {
  int shift;
  std::uint32_t values;
  constexpr std::uint32_t of(std::uint32_t key) const { return key >> shift & (values - 1); }
};
/// The three digits of 31 bits: the first holds the exponent and three bits more.
inline constexpr std::array kDigits{Digit{20, 2048}, Digit{9, 2048}, Digit{0, 512}};
/// The leading bits of a magnitude that the lower bound uses: exponent and four bits of the fraction.
inline constexpr Digit kBoundDigit{19, 4096};

/// Buffers of the ranking functions below, reused from call to call.
struct MagnitudeScratch {
  MagnitudeScratch() = default;
  /// Makes buffers for vectors on `device`.
  explicit MagnitudeScratch(const Device& device)
      : keys(0, device), histogram(0, device), smallest(0, host_memory_for(device)), candidates(device) {}

  const Device& device() const { return keys.device(); }

  Buffer<std::uint32_t> keys;
  Buffer<std::uint32_t> histogram;
  Buffer<float> smallest;  ///< on the host: see smallest_kept()
  SparseVector candidates;

  /// Makes room for vectors of up to `numel` elements, so that no later call allocates: on the CPU, where pages that
  /// are never touched cost address space only. On other devices buffers grow to what the first calls need.
  void reserve(std::size_t numel);
};

// All arguments of a function on one device. Selections are the same on every device.
// @throws DeviceError for memory of several devices, or of one without a row.

/// Returns the k-th largest |x| of [n] float32 values, exactly (radix selection on the bits); a NaN counts as 0; 0 when
/// there are fewer than k values. k > 0. O(n) time, on the CPU 4n bytes of scratch.
extern Operation<float(View<const float> values, std::size_t k, MagnitudeScratch& scratch)> kth_largest_magnitude;

/// Keeps the k entries of largest magnitude of `entries`, or all when there are fewer; ties go to the lower index. The
/// order of `entries` (ascending indices, no NaN) is kept. `kept` is another vector, overwritten.
/// Returns the smallest magnitude kept, 0 if none is. O(entries).
extern Operation<float(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept)>
    keep_largest;

/// Does the work of keep_largest for entries without a NaN: min(k, entries.size()) of them stay, so that nobody has to
/// wait for a GPU to know how many. smallest_kept() returns the smallest magnitude later.
extern Operation<void(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept)>
    start_keep_largest;
/// Returns the smallest magnitude that the last start_keep_largest or select_largest with this scratch kept, 0 if it
/// kept none. Waits for a GPU.
float smallest_kept(const MagnitudeScratch& scratch);

/// Returns a magnitude that at least min(k, n) of the values reach, within 1/16 of the k-th largest: one histogram of
/// the floats' leading bits. Reads 4n bytes.
extern Operation<float(View<const float> values, std::size_t k, MagnitudeScratch& scratch)> magnitude_lower_bound;

/// Selects the exact top-k: the k non-zero values of largest magnitude, or all when there are fewer; ties go to the
/// lower index; a NaN is never selected. Ascending indices.
/// `candidates` are the entries of `values` that reach `bound`, from an earlier pass. If they are fewer than k the
/// bound was too high, and `magnitude_lower_bound` and one more pass replace them.
/// smallest_kept() returns the k-th largest magnitude. With enough candidates it does not wait for a GPU.
void select_largest(View<const float> values, std::size_t k, const SparseVector& candidates, float bound,
                    MagnitudeScratch& scratch, SparseVector& selected);

/// Sums over values and their magnitudes, in double. If a value is NaN all four are.
struct Moments {
  double sum = 0;          ///< of |x|
  double sum_squares = 0;  ///< of x^2
  double signed_sum = 0;   ///< of x
  float largest = 0;       ///< max |x|
};

/// Returns the moments of [n] float32 values: those that a pass of PassRequest::Kind::kMoments finds on the same acc on
/// the same device, bit for bit. Partial sums have fixed places: the bits depend neither on the number of threads nor
/// on the vector width. Reads 4n bytes.
extern Operation<Moments(View<const float> values)> magnitude_moments;

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

}  // namespace dragonn::kernels

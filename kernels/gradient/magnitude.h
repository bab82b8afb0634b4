// SPDX-License-Identifier: MIT
/// Order statistics and moments of magnitudes |x|.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.h"
#include "core/sparse_vector.h"
#include "core/view.h"
#include "kernels/device_table.h"

namespace dragonn::kernels {

/// Buffers of the ranking functions below, reused from call to call.
struct MagnitudeScratch {
  MagnitudeScratch() = default;
  /// Makes buffers for vectors on `device`.
  explicit MagnitudeScratch(const Device& device) : keys(0, device), histogram(0, device), candidates(device) {}

  Buffer<std::uint32_t> keys;
  Buffer<std::uint32_t> histogram;
  SparseVector candidates;

  /// Makes room for vectors of up to `numel` elements, so that no later call allocates: on the CPU, where pages that
  /// are never touched cost address space only. On other devices buffers grow to what the first calls need.
  void reserve(std::size_t numel);
};

// All arguments of a function are on one device. Selections are the same on every device. @throws DeviceError for
// memory of several devices, or of one without a row in the tables below.

/// Returns the k-th largest |x| of [n] float32 values, exactly (radix selection on the bits); a NaN counts as 0; 0 when
/// there are fewer than k values. k > 0. O(n) time, on the CPU 4n bytes of scratch.
float kth_largest_magnitude(View<const float> values, std::size_t k, MagnitudeScratch& scratch);

/// Keeps the k entries of largest magnitude of `entries`, or all when there are fewer; ties go to the lower index. The
/// order of `entries` (ascending indices, no NaN) is kept. `kept` is another vector, overwritten.
/// Returns the smallest magnitude kept, 0 if none is. O(entries).
float keep_largest(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept);

/// Returns a magnitude that at least min(k, n) of the values reach, within 1/16 of the k-th largest: one histogram of
/// the floats' leading bits. Reads 4n bytes.
float magnitude_lower_bound(View<const float> values, std::size_t k, MagnitudeScratch& scratch);

/// Selects the exact top-k: the k non-zero values of largest magnitude, or all when there are fewer; ties go to the
/// lower index; a NaN is never selected. Ascending indices.
/// `candidates` are the entries of `values` that reach `bound`, from an earlier pass. If they are fewer than k the
/// bound was too high, and `magnitude_lower_bound` and one more pass replace them.
/// Returns the k-th largest magnitude, 0 if nothing is selected.
float select_largest(View<const float> values, std::size_t k, const SparseVector& candidates, float bound,
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
Moments magnitude_moments(View<const float> values);

using KthLargestTable = DeviceTable<float (*)(View<const float>, std::size_t k, MagnitudeScratch&)>;
KthLargestTable& kth_largest_table();
using KeepLargestTable =
    DeviceTable<float (*)(const SparseVector& entries, std::size_t k, MagnitudeScratch&, SparseVector& kept)>;
KeepLargestTable& keep_largest_table();
using LowerBoundTable = DeviceTable<float (*)(View<const float>, std::size_t k, MagnitudeScratch&)>;
LowerBoundTable& magnitude_lower_bound_table();
using MomentsTable = DeviceTable<Moments (*)(View<const float>)>;
MomentsTable& magnitude_moments_table();

}  // namespace dragonn::kernels

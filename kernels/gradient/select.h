// SPDX-License-Identifier: MIT
/// Threshold selection, and moving entries between sparse and dense vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "core/view.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

// All arguments of a function on one device; what is selected is the same on every device.
// @throws DeviceError for memory of several devices, or of one without a row.

/// Makes room for selections from `numel` elements and empties `selected`. On the CPU there is room for any selection,
/// so that no later step allocates: pages that are never touched cost address space only. On a device there is room for
/// one entry in kReservedShare, since all of its memory is real; a larger selection makes it grow, once.
void reserve_selection(SparseVector& selected, std::size_t numel);
inline constexpr std::size_t kReservedShare = 32;

/// Selects the entries of `values` ([n] float32) with |x| >= threshold and x != 0 whose index is in [begin, end),
/// ascending, and never a NaN. `selected` is overwritten and, on the CPU, reserves end - begin entries (untouched pages
/// cost no memory). One pass, 4 bytes per element of the range.
extern Operation<void(View<const float>, float threshold, std::size_t begin, std::size_t end, SparseVector& selected)>
    select_threshold_in;
/// Selects from all of `values`.
inline void select_threshold(View<const float> values, float threshold, SparseVector& selected) {
  select_threshold_in(values, threshold, 0, values.size(), selected);
}

/// Selects the entries of `entries` with |x| >= threshold, in their order. `selected` is another vector, overwritten,
/// and reserves entries.size() entries.
extern Operation<void(const SparseVector& entries, float threshold, SparseVector& selected)> filter_threshold;
/// Returns the number of entries with |x| >= threshold.
extern Operation<std::size_t(const SparseVector& entries, float threshold)> count_threshold;

/// Gathers: out[j] = values[indices[j]], for indices below values.size().
extern Operation<void(View<const float> values, View<const std::uint32_t> indices, View<float> out)> gather;
/// Adds: values[index] += value for each entry; entries marked kEmptySlot are skipped. Other indices are unique, except
/// on the CPU, which adds in order.
extern Operation<void(const SparseVector& entries, View<float> values)> scatter_add;
/// Subtracts: values[index] -= value for each entry, as scatter_add adds.
extern Operation<void(const SparseVector& entries, View<float> values)> scatter_subtract;
/// Moves: to[index] += from[index] and from[index] = 0 for each index, unique, that is not kEmptySlot.
extern Operation<void(View<const std::uint32_t> indices, View<float> from, View<float> to)> scatter_move;
/// Clears: values[index] = 0 for each index that is not kEmptySlot.
extern Operation<void(View<const std::uint32_t> indices, View<float> values)> scatter_zero;
/// Copies all entries, between any devices; `target` is overwritten.
void copy_entries(const SparseVector& source, SparseVector& target);

}  // namespace dragonn::kernels

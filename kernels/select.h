// SPDX-License-Identifier: MIT
/// Threshold selection, and moving entries between sparse and dense vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "core/view.h"

namespace dragonn::kernels {

/// Makes room for selections from `numel` elements and empties `selected`. On the CPU for any, so that no later step
/// allocates: pages that are never touched cost address space only. On a device for one entry in kReservedShare, since
/// all of its memory is real; a larger selection makes it grow, once.
void reserve_selection(SparseVector& selected, std::size_t numel);
inline constexpr std::size_t kReservedShare = 32;

/// Entries of `values` ([n] float32, host) with |x| >= threshold and x != 0 whose index is in [begin, end), ascending;
/// NaN never is. `selected` is overwritten and reserves end - begin entries (untouched pages cost no memory).
/// One pass, 4 bytes per element of the range.
void select_threshold(View<const float> values, float threshold, std::size_t begin, std::size_t end,
                      SparseVector& selected);
/// The whole of `values`.
void select_threshold(View<const float> values, float threshold, SparseVector& selected);

/// Entries of `entries` with |x| >= threshold, in their order; `selected` is another vector, overwritten, and reserves
/// entries.size() entries.
void filter_threshold(const SparseVector& entries, float threshold, SparseVector& selected);
/// Number of entries with |x| >= threshold.
std::size_t count_threshold(const SparseVector& entries, float threshold);

/// out[j] = values[indices[j]]. Indices below values.size().
void gather(View<const float> values, View<const std::uint32_t> indices, View<float> out);
/// values[index] += value for each entry, in order; entries marked kEmptySlot are skipped.
void scatter_add(const SparseVector& entries, View<float> values);
/// values[index] = 0 for each index.
void scatter_zero(View<const std::uint32_t> indices, View<float> values);
/// Copies all entries; `target` is overwritten.
void copy_entries(const SparseVector& source, SparseVector& target);

}  // namespace dragonn::kernels

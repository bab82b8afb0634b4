// SPDX-License-Identifier: MIT
/// Merges: arithmetic on sparse vectors with ascending indices, by two pointers, linear in their entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/sparse_vector.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::comm {

/// Adds: sum <- a + b without the indices whose values cancel. `sum` is neither of the two.
void add_entries(const ListView& a, const ListView& b, SparseVector& sum);

/// Finds dropped <- the entries of `all` whose index is not in `kept`, indices that `all` has too.
void entries_left_out(const SparseVector& all, std::span<const std::uint32_t> kept, SparseVector& dropped);

/// Finds the indices that are in both.
void common_indices(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b, Buffer<std::uint32_t>& common);

/// Reads out[i] <- the value of `entries` at indices[i], 0 if it has none.
void values_at(const SparseVector& entries, std::span<const std::uint32_t> indices, std::span<float> out);

/// Works like kernels::keep_largest; memory grows with room, since the number of entries varies between steps.
float keep_largest_with_slack(const SparseVector& entries, std::size_t k, kernels::MagnitudeScratch& scratch,
                              SparseVector& kept);
/// Keeps the entries with |x| >= threshold and x != 0.
void keep_above(const SparseVector& entries, float threshold, SparseVector& kept);

}  // namespace dragonn::comm

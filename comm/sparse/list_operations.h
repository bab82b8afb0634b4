// SPDX-License-Identifier: MIT
/// ListOperations: the arithmetic of lists of entries, where these live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "comm/sparse/list_verbs.h"

namespace dragonn::comm {

/// One object per bucket of numel elements: it keeps what its functions need from step to step. All arguments and
/// results are on the device that it is made for; results are overwritten, and their memory grows with room. Host
/// memory and a GPU give the same bits.
class ListOperations {
 public:
  virtual ~ListOperations() = default;

  /// sum <- the lists, added up in their order: ascending, unique; an index whose values cancel stays.
  /// @throws CommError in host memory if a list does not ascend, or has an index that is not below numel.
  virtual void sum(std::span<const ListView> lists, SparseVector& sum) = 0;
  /// The same as numel floats.
  virtual void sum_dense(std::span<const ListView> lists, Buffer<float>& sum) = 0;
  /// united.indices <- the indices of all lists, which need no values; united.values has as many elements, of no
  /// meaning. @throws as sum.
  virtual void unite(std::span<const ListView> lists, SparseVector& united) = 0;
  /// sum <- a + b without the indices whose values cancel. `sum` is none of the two.
  virtual void merge(const ListView& a, const ListView& b, SparseVector& sum) = 0;

  /// As kernels::keep_largest.
  virtual float keep_largest(const SparseVector& entries, std::size_t k, SparseVector& kept) = 0;
  /// kept <- the entries with |x| >= threshold and x != 0.
  virtual void keep_above(const SparseVector& entries, float threshold, SparseVector& kept) = 0;
  /// rest <- the entries of `all` whose index `kept` does not have; every index of `kept` is one of `all`.
  virtual void leave_out(const SparseVector& all, const SparseVector& kept, SparseVector& rest) = 0;
  /// common <- the indices that are in both.
  virtual void common_indices(View<const std::uint32_t> a, View<const std::uint32_t> b,
                              Buffer<std::uint32_t>& common) = 0;
  /// values[i] <- the value of `entries` at indices[i], 0 where it has none.
  virtual void values_at(const SparseVector& entries, View<const std::uint32_t> indices, View<float> values) = 0;
  /// Waits for what was started on the device, so that it can be timed.
  virtual void finish() = 0;
};

std::unique_ptr<ListOperations> make_list_operations(std::size_t numel, const Device& device);

/// target <- the list. Memory grows with room.
void copy_list(const ListView& source, SparseVector& target);
/// target <- the indices. @param limit of the room (resize_with_room).
void copy_indices(View<const std::uint32_t> source, Buffer<std::uint32_t>& target, std::size_t limit);
/// target <- the lists one behind the other.
void concatenate(std::span<const ListView> lists, SparseVector& target);

}  // namespace dragonn::comm

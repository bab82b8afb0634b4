// SPDX-License-Identifier: MIT
/// ListOperations: the arithmetic of lists of entries, on the device that holds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "comm/sparse/list_verbs.h"

namespace dragonn::comm {

/// Concatenates lists in the memory of one device.
void concatenate(std::span<const ListView> lists, SparseVector& target);

/// The arithmetic for one bucket of numel elements; it keeps the memory of its functions from step to step. All
/// arguments and results are on the device that it is made for; results are overwritten, and their memory grows with
/// room. Host memory and a GPU give the same bits.
class ListOperations {
 public:
  virtual ~ListOperations() = default;

  /// Sums lists in their order: `sum` is ascending and unique; an index whose values cancel stays.
  /// @throws CommError in host memory if a list does not ascend, or has an index that is not below numel.
  virtual void sum(std::span<const ListView> lists, SparseVector& sum) = 0;
  /// Sums lists as numel floats.
  virtual void sum_dense(std::span<const ListView> lists, Buffer<float>& sum) = 0;
  /// Unites the indices of all lists, which need no values; united.values are the numbers of lists that have them.
  /// @throws as sum.
  virtual void unite(std::span<const ListView> lists, SparseVector& united) = 0;
  /// Merges two lists: sum <- a + b without the indices whose values cancel. `sum` is neither of the two.
  virtual void merge(const ListView& a, const ListView& b, SparseVector& sum) = 0;

  /// Works like kernels::keep_largest.
  virtual float keep_largest(const SparseVector& entries, std::size_t k, SparseVector& kept) = 0;
  /// Keeps the entries with |x| >= threshold and x != 0.
  virtual void keep_above(const SparseVector& entries, float threshold, SparseVector& kept) = 0;
  /// Leaves out: rest <- the entries of `all` whose index `kept` does not have; every index of `kept` is one of `all`.
  virtual void leave_out(const SparseVector& all, const SparseVector& kept, SparseVector& rest) = 0;
  /// Finds the indices that are in both lists.
  virtual void common_indices(View<const std::uint32_t> a, View<const std::uint32_t> b,
                              Buffer<std::uint32_t>& common) = 0;
  /// Reads values[i] <- the value of `entries` at indices[i], 0 if it has none.
  virtual void values_at(const SparseVector& entries, View<const std::uint32_t> indices, View<float> values) = 0;
  /// Waits for the work that was started on the device, so that it can be timed.
  virtual void finish() = 0;
  /// Concatenates lists.
  virtual void concatenate(std::span<const ListView> lists, SparseVector& target) { comm::concatenate(lists, target); }
};

std::unique_ptr<ListOperations> make_list_operations(std::size_t numel, const Device& device);

/// Adds in host memory: sum <- a + b without the indices whose values cancel. `sum` is neither of the two.
void add_entries(const ListView& a, const ListView& b, SparseVector& sum);
/// Finds the indices that are in both.
void common_indices(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b, Buffer<std::uint32_t>& common);
/// Reads out[i] <- the value of `entries` at indices[i], 0 if it has none.
void values_at(const SparseVector& entries, std::span<const std::uint32_t> indices, std::span<float> out);

/// Copies a list. The target's memory grows with room.
void copy_list(const ListView& source, SparseVector& target);
/// Copies indices. @param limit of the room (resize_with_slack).
void copy_indices(View<const std::uint32_t> source, Buffer<std::uint32_t>& target, std::size_t limit);

}  // namespace dragonn::comm

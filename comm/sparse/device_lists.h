// SPDX-License-Identifier: MIT
/// DeviceLists: sums and intersections of lists of entries in the memory of a GPU.
#pragma once

#include <cstdint>

#include "core/sparse_vector.h"
#include "kernels/decode.h"

namespace dragonn::comm {

/// What comm/sparse/merge.h does with two pointers in host memory is done here by a ListDecoder: lists are added up,
/// and what is wanted is told by the value of the sum. Lists have unique indices below numel.
class DeviceLists {
 public:
  DeviceLists(std::size_t numel, const Device& device);

  /// The next list of a sum. Elements are added in the order of the lists.
  void add(const SparseVector& list);
  void add(View<const std::uint32_t> indices, View<const float> values);
  /// sum <- the lists added so far, ascending; an index whose values cancel stays.
  void finish(SparseVector& sum);
  /// sum <- the same without the zeros.
  void finish_nonzero(SparseVector& sum);

  /// common <- the indices that are in both. No sum may be under way.
  void common_indices(View<const std::uint32_t> a, View<const std::uint32_t> b, Buffer<std::uint32_t>& common);

 private:
  std::size_t numel_;
  kernels::ListDecoder decoder_;
  SparseVector summed_;
  SparseVector both_;
  Buffer<float> ones_;
};

/// target <- the entries, or their indices. Memory grows with room.
void copy_list(const SparseVector& source, SparseVector& target);
void copy_indices(const SparseVector& source, Buffer<std::uint32_t>& target);

}  // namespace dragonn::comm

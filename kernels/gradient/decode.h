// SPDX-License-Identifier: MIT
/// ListDecoder: sums the lists of entries of all ranks into one, on one device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "core/view.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// Sums lists by batched sparse decoding (DRAGONN, ICML 2022, section 4.3), with a bitmap in place of zeros. The lists
/// are added to one dense vector, list by list, and the bitmap tells which of its elements are valid, so that the
/// vector is never cleared. Each element is summed in the order of the lists: no atomic additions, the same bits on
/// every rank and device. K lists of k entries cost 16 K k bytes at random places and one sweep over n / 8 bytes;
/// memory is 4n + n / 8 bytes.
class ListDecoder {
 public:
  /// @throws DeviceError for a device without a row.
  ListDecoder(std::size_t numel, const Device& device);

  /// Adds a list: unique indices below numel in any order; entries marked kEmptySlot are skipped. Not checked further.
  /// @throws DeviceError for memory of another device.
  void add(View<const std::uint32_t> indices, View<const float> values);
  /// Writes the sum of the lists (ascending, unique; an index whose values cancel stays) and starts anew.
  void finish(SparseVector& sum);

 private:
  std::size_t numel_;
  std::size_t entries_ = 0;  ///< of all lists together
  Buffer<float> values_;     ///< valid where marked
  Buffer<std::uint32_t> marks_;
};

/// The memory of a decoder: [n] values, and a bit for each.
struct MarkedValues {
  View<float> values;
  View<std::uint32_t> marks;

  const Device& device() const { return values.device(); }
};
extern Operation<void(View<const std::uint32_t> indices, View<const float> values, const MarkedValues&)> decode_add;
/// Writes the marked values to `sum`, which has room for them, and clears the marks. Sets the size of `sum`.
extern Operation<void(const MarkedValues&, SparseVector& sum)> decode_collect;

}  // namespace dragonn::kernels

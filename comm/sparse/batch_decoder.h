// SPDX-License-Identifier: MIT
/// BatchDecoder: sums many sparse lists into one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/sparse_vector.h"

namespace dragonn::comm {

/// Sums lists by batched sparse decoding (DRAGONN section 4.3): the lists are added to one dense vector, which is then
/// read out. Here the vector is a window that fits the first-level cache, and moves along the bucket with all lists at
/// once. The window is never cleared: a bitmap tells which of its elements are valid, and the bitmap's sweep yields the
/// indices in ascending order (a second bitmap, over its words, skips those without entries). So k' entries cost 2k'
/// accesses that hit the cache. A dense vector as large as the bucket would miss the cache at every entry, and a merge
/// of the lists would mispredict most of its comparisons. Windows without entries are skipped: no pass over the bucket.
///
/// Each element is summed in the order of the add() calls: rank order, if lists are added so.
class BatchDecoder {
 public:
  explicit BatchDecoder(std::size_t numel) : numel_(numel) {}

  /// Adds a list: ascending indices, empty slots only at its end. Its memory must not change until finish(). Returns
  /// the number of entries that are not empty.
  std::size_t add(const ListView& list);
  /// Writes the sum of the lists (ascending, unique; an index whose values cancel stays) and starts anew.
  /// @throws CommError if a list does not ascend, or has an index that is not below numel.
  void finish(SparseVector& sum);
  /// Writes the sum as a dense vector: `sum`, [numel], is overwritten. Each window is zeroed, then added to while it is
  /// in the cache: numel + 2k' accesses, of which memory sees numel. @throws as finish; `sum` is then not to be used.
  void finish_dense(std::span<float> sum);

 private:
  static constexpr std::size_t kBits = std::numeric_limits<std::uint64_t>::digits;
  static constexpr std::size_t kWindow = std::size_t{1} << 13;  // 32 KiB of values

  /// A list and how far it has been read.
  struct Cursor {
    std::span<const std::uint32_t> indices;
    std::span<const float> values;
    std::size_t position = 0;
    std::size_t end = 0;

    bool done() const { return position == end; }
    std::uint32_t index() const { return indices[position]; }
    void add_to(std::span<float> window, std::size_t begin);
  };
  void start_anew();
  std::size_t next_window() const;
  void add_to_window(Cursor& cursor, std::size_t begin);
  std::size_t read_window(std::size_t begin, SparseVector& sum, std::size_t count);

  std::size_t numel_;
  std::vector<Cursor> cursors_;
  std::array<float, kWindow> values_;  // valid where the bitmap says so
  std::array<std::uint64_t, kWindow / kBits> is_present_{};
  std::array<std::uint64_t, kWindow / kBits / kBits> is_word_used_{};  // one bit per word above
};

/// Adds the list to a dense vector: sum[i] += value for every entry. Returns the number of entries that are not empty.
/// @throws CommError if an index is not below sum.size().
std::size_t add_to_dense(const ListView& list, std::span<float> sum);

}  // namespace dragonn::comm

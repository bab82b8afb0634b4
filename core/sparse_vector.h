// SPDX-License-Identifier: MIT
/// SparseVector: a list of (index, value) pairs, the form in which gradients are selected and exchanged. ListView:
/// reads one in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/buffer.h"

namespace dragonn {

/// Marks a padding or empty slot on the wire; its value is 0 and receivers skip it.
inline constexpr std::uint32_t kEmptySlot = std::numeric_limits<std::uint32_t>::max();

/// A list of entries in COO form: uint32 index and float32 value, 8 bytes an entry. Unless said otherwise, indices
/// ascend and are unique.
/// Indices count from the start of the bucket, which holds fewer than 2^32 - 1 elements.
struct SparseVector {
  SparseVector() = default;
  /// Makes an empty list in memory of `place`.
  explicit SparseVector(const MemoryPlace& place) : indices(0, place), values(0, place) {}

  Buffer<std::uint32_t> indices;
  Buffer<float> values;

  const Device& device() const { return indices.device(); }
  std::size_t size() const { return indices.size(); }
  bool empty() const { return size() == 0; }
  void clear() { resize_discard(0); }
  /// Sets the number of entries; the content is undefined if memory has to grow.
  void resize_discard(std::size_t entries) {
    indices.resize_discard(entries);
    values.resize_discard(entries);
  }
  /// Keeps the first `entries` entries.
  void truncate(std::size_t entries) {
    indices.truncate(entries);
    values.truncate(entries);
  }
  static constexpr std::size_t kEntryBytes = sizeof(std::uint32_t) + sizeof(float);
};

/// Resizes both buffers with slack.
inline void resize_with_slack(SparseVector& entries, std::size_t size,
                              std::size_t limit = std::numeric_limits<std::size_t>::max()) {
  resize_with_slack(entries.indices, size, limit);
  resize_with_slack(entries.values, size, limit);
}

/// Returns the bytes of that many entries.
constexpr std::size_t coo_bytes(std::size_t entries) {
  return entries * SparseVector::kEntryBytes;
}

/// A view of a list of entries. Indices ascend and are unique.
struct ListView {
  ListView() = default;
  ListView(View<const std::uint32_t> list_indices, View<const float> list_values)
      : indices(list_indices), values(list_values) {}
  ListView(const SparseVector& entries)  // NOLINT(google-explicit-constructor): as a View of a Buffer
      : indices(entries.indices.view()), values(entries.values.view()) {}

  std::size_t size() const { return indices.size(); }
  /// Returns the entries [begin, end).
  ListView slice(std::size_t begin, std::size_t end) const {
    return {indices.subview(begin, end - begin), values.empty() ? values : values.subview(begin, end - begin)};
  }

  View<const std::uint32_t> indices;
  View<const float> values;  ///< empty if indices travel alone
};

}  // namespace dragonn

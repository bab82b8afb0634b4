// SPDX-License-Identifier: MIT
/// SlotTable: a table of indices that are hashed into slots, for hits with priorities.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/sparse_vector.h"
#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/gradient/hash_rule.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {

/// The table I of Algorithm 1 of DRAGONN (ICML 2022), if hits compete for slots by priority. Memory is reused. The
/// functions here run on the CPU.
class SlotTable {
 public:
  SlotTable() = default;
  explicit SlotTable(const Device& device) : slots_(0, device) {}

  /// Makes room for tables of up to `slots` slots.
  void reserve(std::size_t slots) { slots_.resize_discard(slots); }

  /// Writes every index of `hits` to its slot, unless one of higher priority is there.
  template <class SlotOf>
  void fill(std::span<const std::uint32_t> hits, std::size_t slots, const SlotOf& slot_of,
            const SlotPriority& priority) {
    slots_.resize_discard(slots);
    std::ranges::fill(slots_.host(), kEmptySlot);
    for (const std::uint32_t index : hits) {
      std::uint32_t& holder = slots_.data()[slot_of(index)];
      if (holder == kEmptySlot || priority(index) > priority(holder)) holder = index;
    }
  }

  /// The memory, for the kernels of other devices.
  Buffer<std::uint32_t>& memory() { return slots_; }

  /// Writes to `kept` the hits that hold their slot, in ascending order, found by threads. `kept` is overwritten.
  template <class SlotOf>
  void collect(const SparseVector& hits, const SlotOf& slot_of, SparseVector& kept) const {
    kept.resize_discard(hits.size());
    std::array<detail::HitRun, kMostPieces> runs;
    const std::size_t pieces =
        for_each_piece(hits.size(), kPiece, [&](std::size_t piece, std::size_t begin, std::size_t end) {
          runs[piece] = {begin, collect_range(hits, begin, end, slot_of, kept)};
        });
    detail::join_runs(std::span(runs).first(pieces), kept);
  }

 private:
  /// The fewest hits of a piece that are worth a thread's wake-up.
  static constexpr std::size_t kPiece = 32768;

  template <class SlotOf>
  std::size_t collect_range(const SparseVector& hits, std::size_t begin, std::size_t end, const SlotOf& slot_of,
                            SparseVector& kept) const {
    const std::uint32_t* const table = slots_.data();
    std::uint32_t* const indices = kept.indices.data() + begin;
    float* const values = kept.values.data() + begin;
    std::size_t count = 0;
    for (std::size_t hit = begin; hit < end; ++hit) {
      const std::uint32_t index = hits.indices.data()[hit];
      indices[count] = index;
      values[count] = hits.values.data()[hit];
      count += table[slot_of(index)] == index ? 1 : 0;
    }
    return count;
  }

  Buffer<std::uint32_t> slots_;
};

}  // namespace dragonn::kernels

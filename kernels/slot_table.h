// SPDX-License-Identifier: MIT
/// KeyedSlot: hashes selected indices into slots. SlotTable: a table of these, for hits of which some have priority.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/rng.h"
#include "core/sparse_vector.h"
#include "kernels/gradient_pass_sweep.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {

/// A slot in [0, slots): the high bits of a keyed mixer times the number of slots. Neighbouring indices, which is what
/// hits often are, spread as well as any.
struct KeyedSlot {
  std::uint64_t salt = 0;
  std::size_t slots = 1;
  constexpr std::size_t operator()(std::uint32_t index) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>(static_cast<Wide>(mix64(salt + index)) * slots >> 64);
  }
};

/// A random key per index: the higher of two wins their slot, so that no index is favoured for its place.
struct SlotPriority {
  std::uint64_t salt = 0;
  /// No two indices have the same.
  constexpr std::uint64_t operator()(std::uint32_t index) const { return mix64(mix64(salt) ^ index); }
};

/// The table I of Algorithm 1 of DRAGONN (ICML 2022), where hits compete for slots by priority. Memory is reused. What
/// fills and reads it here runs on the CPU.
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

  /// For the kernels of other devices.
  Buffer<std::uint32_t>& memory() { return slots_; }

  /// The hits that hold their slot, in ascending order, found by threads. `kept` is overwritten.
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
  /// Hits below which a thread's wake-up costs more than it saves.
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

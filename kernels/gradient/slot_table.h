// SPDX-License-Identifier: MIT
/// SlotTable and SlotClaims: of hits that are hashed into slots, which hold theirs: with and without priorities.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "core/error.h"
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
    std::array<detail::HitRun, kMaxPieces> runs;
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

/// Computes the final content of the table of DRAGONN's Algorithm 1 (ICML 2022), on the CPU and without a table. The
/// last hit of a slot stays: seen from the last hit to the first, the one that finds its slot's bit unset. Pieces of
/// the hits do that in parallel, each with bits of its own; then a hit stays if no later piece has set its slot's bit.
/// The bits of a piece fit the second-level cache, where a table would not. Memory is reused.
class SlotClaims {
 public:
  /// Makes room for up to `hits` hits in up to `slots` slots each.
  void reserve(std::size_t hits, std::size_t slots) {
    marks_.resize_discard(hits);
    // A piece has at least slots / 32 hits: half a word for each of them, and what rounding up adds.
    bits_.resize_discard(hits / 2 + words(slots) + kMaxCuts + 1);
  }

  /// Writes to `kept` those of `hits` (ascending) that are the last of their slot, ascending; slot_of(index) < slots <
  /// 2^32 - 1. `kept` is another vector, overwritten. Reads 4 bytes per hit to hash it and 8 to keep it; the bits take
  /// at most 4 bytes per hit and an eighth per slot.
  template <class SlotOf>
  void keep_last(const SparseVector& hits, std::size_t slots, const SlotOf& slot_of, SparseVector& kept) {
    DRAGONN_CHECK(slots < kLost, "hashing into {} slots; there may be fewer than {}", slots, kLost);
    const Cut cut(hits.size(), slots);
    marks_.resize_discard(hits.size());
    bits_.resize_discard(cut.pieces * words(slots));
    const auto bits_of = [&](std::size_t piece) { return bits_.data() + piece * words(slots); };
    for_each_piece(hits.size(), cut.length, [&](std::size_t piece, std::size_t begin, std::size_t end) {
      std::fill_n(bits_of(piece), words(slots), 0);
      claim(hits.indices.data(), begin, end, slot_of, bits_of(piece));
    });
    for_each_piece(words(slots), kPieceWords, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (std::size_t piece = cut.pieces; piece-- > 1;) {
        const std::uint64_t* const later = bits_of(piece);
        std::uint64_t* const bits = bits_of(piece - 1);
        for (std::size_t word = begin; word < end; ++word) bits[word] |= later[word];
      }
    });
    std::array<std::size_t, kMaxPieces + 1> places{};
    for_each_piece(hits.size(), cut.length, [&](std::size_t piece, std::size_t begin, std::size_t end) {
      const bool is_last = piece + 1 == cut.pieces;
      places[piece + 1] = is_last ? mark_claims(begin, end) : mark_unclaimed(begin, end, bits_of(piece + 1));
    });
    for (std::size_t piece = 0; piece < cut.pieces; ++piece) places[piece + 1] += places[piece];
    kept.resize_discard(places[cut.pieces]);
    for_each_piece(hits.size(), cut.length, [&](std::size_t piece, std::size_t begin, std::size_t) {
      write(hits, begin, kept, places[piece], places[piece + 1]);
    });
  }

 private:
  /// The mark of a hit that a later one of its piece replaces. Marks are slots first, and 0 or 1 in the end.
  static constexpr std::uint32_t kLost = 0xffffffff;
  static constexpr std::size_t kPieceWords = 4096;
  static constexpr std::size_t kMaxCuts = 16;

  static std::size_t words(std::size_t slots) { return (slots + 63) / 64; }

  /// The pieces of hits: few, since every one has bits for all slots.
  struct Cut {
    Cut(std::size_t hits, std::size_t slots)
        : length(std::max({std::size_t{32768}, (hits + kMaxCuts - 1) / kMaxCuts, slots / 32})),
          pieces((hits + length - 1) / length) {}
    std::size_t length;
    std::size_t pieces;
  };

  template <class SlotOf>
  void claim(const std::uint32_t* indices, std::size_t begin, std::size_t end, const SlotOf& slot_of,
             std::uint64_t* bits) {
    std::uint32_t* const marks = marks_.data();
    for (std::size_t hit = end; hit-- > begin;) {
      const auto slot = static_cast<std::uint32_t>(slot_of(indices[hit]));
      const std::uint64_t bit = std::uint64_t{1} << slot % 64;
      std::uint64_t& word = bits[slot / 64];
      marks[hit] = (word & bit) != 0 ? kLost : slot;
      word |= bit;
    }
  }

  /// Sets marks to 1 for the hits that stay, else to 0. Returns how many stay.
  std::size_t mark_claims(std::size_t begin, std::size_t end) {
    std::size_t count = 0;
    for (std::uint32_t& mark : marks_.host().subspan(begin, end - begin)) {
      mark = mark != kLost ? 1 : 0;
      count += mark;
    }
    return count;
  }

  /// Does the same with `later`, the bits that later pieces have set.
  std::size_t mark_unclaimed(std::size_t begin, std::size_t end, const std::uint64_t* later) {
    std::size_t count = 0;
    for (std::uint32_t& mark : marks_.host().subspan(begin, end - begin)) {
      const std::uint32_t slot = mark != kLost ? mark : 0;
      const std::uint64_t is_free = ~(later[slot / 64] >> slot % 64) & 1;
      mark = mark != kLost ? static_cast<std::uint32_t>(is_free) : 0;
      count += mark;
    }
    return count;
  }

  /// Writes the hits that stay, from the hit `begin` on, to the places [place, stop).
  void write(const SparseVector& hits, std::size_t begin, SparseVector& kept, std::size_t place,
             std::size_t stop) const {
    const std::uint32_t* const marks = marks_.data();
    for (std::size_t hit = begin; place < stop; ++hit) {
      // Every hit is written, but stays only if its mark counts it.
      kept.indices.data()[place] = hits.indices.data()[hit];
      kept.values.data()[place] = hits.values.data()[hit];
      place += marks[hit];
    }
  }

  Buffer<std::uint32_t> marks_;
  Buffer<std::uint64_t> bits_;
};

}  // namespace dragonn::kernels

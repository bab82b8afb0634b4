// SPDX-License-Identifier: MIT
/// Hash selection: the choice among hits by a hash table of fixed size.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/operation.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {

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

/// Memory of the choice, reused from call to call.
struct HashScratch {
  HashScratch() = default;
  /// Makes memory for hits on `device`.
  explicit HashScratch(const Device& device) : table(0, device), holders(device) {}

  Buffer<std::uint32_t> table;  ///< used on other devices, and on the CPU by priority
  SlotClaims claims;            ///< used on the CPU otherwise
  SparseVector holders;         ///< used on other devices: the hits of the last pass that hold their slots

  /// Makes room for up to `hits` hits in up to `slots` slots, so that no later call allocates.
  void reserve(std::size_t hits, std::size_t slots);
};

/// Writes to `kept` those of `hits` (ascending, unique) that hold their slot, ascending; the same on every device.
/// `kept` is another vector, overwritten. All are on one device, the scratch too. Source: DRAGONN (ICML 2022),
/// algorithm 1.
///
/// On the CPU any list will do. It reads 4 bytes per hit to hash it and 8 to keep it; with a table (see HashScratch) it
/// writes 4 bytes per slot, without an eighth. On a GPU the hits are those of the last pass with this choice
/// (PassRequest::hash), which emptied the table, put each hit there as it found it, and listed those that hold their
/// slots: 4 bytes per slot and per hit, by priority 8, then 8 bytes per hit and its slot. That list is copied here,
/// without a wait.
/// @throws DeviceError for memory of several devices, or of one without a row.
extern Operation<void(const SparseVector& hits, const HashChoice& choice, SparseVector& kept)> hash_select;

}  // namespace dragonn::kernels

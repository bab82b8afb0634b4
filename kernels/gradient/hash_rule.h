// SPDX-License-Identifier: MIT
/// HashRule: decides which of the entries in one slot stays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rng.h"

namespace dragonn::kernels {

/// Returns a slot in [0, slots): the high bits of a keyed mixer times the number of slots. Neighbouring indices, as
/// hits often are, spread as well as any others.
struct KeyedSlot {
  std::uint64_t salt = 0;
  std::size_t slots = 1;
  constexpr std::size_t operator()(std::uint32_t index) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>(static_cast<Wide>(mix64(salt + index)) * slots >> 64);
  }
};

/// Returns a random key per index. The higher of two keys wins their slot, so that no index is favoured for its place.
struct SlotPriority {
  std::uint64_t salt = 0;
  /// Returns a key that no other index has.
  constexpr std::uint64_t operator()(std::uint32_t index) const { return mix64(mix64(salt) ^ index); }
};

/// The hash of hits, and the rule for several hits in one slot.
struct HashRule {
  KeyedSlot slot = {};
  bool by_priority = false;  ///< the higher of two random keys stays; otherwise the larger index
};

struct HashScratch;

/// A choice by a hash table, and its memory (kernels/gradient/hash_select.h). Without memory there is no choice.
struct HashChoice {
  HashRule rule = {};
  HashScratch* scratch = nullptr;
};

}  // namespace dragonn::kernels

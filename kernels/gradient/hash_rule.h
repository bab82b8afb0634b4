// SPDX-License-Identifier: MIT
/// HashRule: which of the entries that are hashed into the same slot stays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rng.h"

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

/// How hits are hashed, and which of those that meet stays.
struct HashRule {
  KeyedSlot slot = {};
  bool by_priority = false;  ///< the higher of two random keys; otherwise the larger index
};

struct HashScratch;

/// A choice by a hash table, and the memory that it works in (kernels/gradient/hash_select.h). Without memory there is
/// none.
struct HashChoice {
  HashRule rule = {};
  HashScratch* scratch = nullptr;
};

}  // namespace dragonn::kernels

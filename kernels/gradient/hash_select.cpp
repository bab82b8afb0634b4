// SPDX-License-Identifier: MIT
#include "kernels/gradient/hash_select.h"

#include "kernels/gradient/gradient_pass_sweep.h"

namespace dragonn::kernels {
namespace {

/// Keeps the hit of highest priority in each slot: writes the hits to the table I of Algorithm 1 of DRAGONN, then
/// collects those that it holds, by threads.
void keep_by_priority(const SparseVector& hits, const KeyedSlot& slot, Buffer<std::uint32_t>& table,
                      SparseVector& kept) {
  const SlotPriority priority{slot.salt};
  table.resize_discard(slot.slots);
  std::ranges::fill(table.host(), kEmptySlot);
  for (const std::uint32_t index : hits.indices.host()) {
    std::uint32_t& holder = table.data()[slot(index)];
    if (holder == kEmptySlot || priority(index) > priority(holder)) holder = index;
  }
  constexpr std::size_t kPiece = 32768;  // the fewest hits that are worth a thread's wake-up
  kept.resize_discard(hits.size());
  std::array<detail::HitRun, kMaxPieces> runs;
  const std::size_t pieces =
      for_each_piece(hits.size(), kPiece, [&](std::size_t piece, std::size_t begin, std::size_t end) {
        std::size_t next = begin;
        for (std::size_t hit = begin; hit < end; ++hit) {
          // Every hit is written, but stays only if it holds its slot.
          const std::uint32_t index = hits.indices.data()[hit];
          kept.indices.data()[next] = index;
          kept.values.data()[next] = hits.values.data()[hit];
          next += table.data()[slot(index)] == index ? 1 : 0;
        }
        runs[piece] = {begin, next - begin};
      });
  detail::join_runs(std::span(runs).first(pieces), kept);
}

void on_cpu(const SparseVector& hits, const HashChoice& choice, SparseVector& kept) {
  const KeyedSlot& slot = choice.rule.slot;
  if (choice.rule.by_priority) return keep_by_priority(hits, slot, choice.scratch->table, kept);
  choice.scratch->claims.keep_last(hits, slot.slots, slot, kept);
}

}  // namespace

constinit decltype(hash_select) hash_select(
    "hash_select", on_cpu, [](const SparseVector& hits, const HashChoice& choice, SparseVector&) {
      DRAGONN_CHECK(choice.scratch != nullptr, "hash_select without memory to work in");
      check_same_device("hash_select", hits.device(), choice.scratch->table.device());
      return true;
    });

void HashScratch::reserve(std::size_t hits, std::size_t slots) {
  table.resize_discard(slots);
  if (table.device().is_cpu()) claims.reserve(hits, slots);
}

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
/// Compaction of a list of entries on a GPU: keeps the entries that a rule chooses, in their order, in one pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "kernels/gradient/cuda/look_back.h"

#ifdef DRAGONN_DEVICE_CODE
namespace dragonn::kernels::cuda {

/// A rule's decision on an entry.
enum class Verdict { kDrop, kKeep, kTie };

inline constexpr unsigned kEntriesPerThread = 8;
inline constexpr unsigned kTileEntries = kThreads * kEntriesPerThread;

/// A list, and the memory for its kept entries: room for all that the rule can keep.
struct EntryLists {
  const std::uint32_t* indices;
  const float* values;
  std::size_t size;            ///< of the list; or the most that it can be, if the GPU alone knows its size
  const std::uint32_t* count;  ///< where the GPU finds the size, which may be beyond the most; else null
  std::uint32_t* kept_indices;
  float* kept_values;
};

inline std::size_t tiles_of_entries(std::size_t entries) {
  return (entries + kTileEntries - 1) / kTileEntries;
}

/// Compacts a tile of 2048 entries; a warp takes 256 neighbours, 32 at a time.
template <class Rule>
__device__ void compact_tile(const EntryLists& lists, std::size_t size, const Rule& rule, LookBack& look_back,
                             std::size_t tile, Compaction* result) {
  const std::size_t first = tile * kTileEntries + warp_id() * (kTileEntries / kWarps) + lane_id();
  std::uint32_t indices[kEntriesPerThread];
  float values[kEntriesPerThread];
  unsigned kept[kEntriesPerThread], ties[kEntriesPerThread];  // lanes
  for (unsigned step = 0; step < kEntriesPerThread; ++step) {
    const std::size_t entry = first + step * kWarp;
    indices[step] = entry < size ? lists.indices[entry] : kEmptySlot;
    values[step] = entry < size ? lists.values[entry] : 0.0f;
  }
  std::uint64_t mine = 0;
  for (unsigned step = 0; step < kEntriesPerThread; ++step) {
    const bool is_entry = first + step * kWarp < size;
    const Verdict verdict = is_entry ? rule(indices[step], values[step]) : Verdict::kDrop;
    kept[step] = __ballot_sync(kAllLanes, verdict == Verdict::kKeep);
    ties[step] = __ballot_sync(kAllLanes, verdict == Verdict::kTie);
    mine += static_cast<unsigned>(__popc(kept[step])) |
            static_cast<std::uint64_t>(static_cast<unsigned>(__popc(ties[step]))) << 32;
  }
  std::uint64_t end = 0;
  const std::uint64_t place = place_of_warp(look_back, tile, mine, &end);
  const std::uint32_t max_ties = rule.max_ties();
  auto keeps_before = static_cast<std::uint32_t>(place);
  auto ties_before = static_cast<std::uint32_t>(place >> 32);
  for (unsigned step = 0; step < kEntriesPerThread; ++step) {
    const std::uint32_t keeps = keeps_before + bits_before(kept[step]);
    const std::uint32_t tied = ties_before + bits_before(ties[step]);
    const bool is_kept = (kept[step] >> lane_id() & 1u) != 0;
    const bool is_tie = (ties[step] >> lane_id() & 1u) != 0;
    if (is_kept || (is_tie && tied < max_ties)) {
      const std::uint32_t target = keeps + min(tied, max_ties);
      lists.kept_indices[target] = indices[step];
      lists.kept_values[target] = values[step];
    }
    keeps_before += static_cast<unsigned>(__popc(kept[step]));
    ties_before += static_cast<unsigned>(__popc(ties[step]));
  }
  if ((tile + 1) * kTileEntries >= size && threadIdx.x == 0)
    result->count = static_cast<std::uint32_t>(end) + min(static_cast<std::uint32_t>(end >> 32), max_ties);
}

/// Compacts a list. `Rule` has `__device__ Verdict operator()(std::uint32_t index, float value) const` and
/// `__device__ std::uint32_t max_ties() const`: the ties of lowest place stay, up to this number.
template <class Rule>
__global__ void __launch_bounds__(kThreads) compact_kernel(EntryLists lists, Rule rule, CompactionMemory compaction) {
  LookBack look_back(compaction);
  const std::size_t size = lists.count == nullptr ? lists.size : min(lists.size, std::size_t{*lists.count});
  for (;;) {
    const std::size_t tile = look_back.take_tile();
    if (tile * kTileEntries >= size) return;
    compact_tile(lists, size, rule, look_back, tile, compaction.result);
  }
}

/// Starts a compaction, which has tiles_of_entries(lists.size) tiles. The number of entries kept is on the GPU.
template <class Rule>
void start_compaction(const Context& here, const EntryLists& lists, const Rule& rule,
                      const CompactionMemory& compaction) {
  launch(here, "compaction of entries", here.blocks(lists.size, kTileEntries), kThreads, compact_kernel<Rule>, lists,
         rule, compaction);
}

/// Starts a compaction of `entries`, which are not none, to `kept`, which gets their size.
template <class Rule>
CompactionMemory start_compaction(Context& here, const SparseVector& entries, const Rule& rule, SparseVector& kept) {
  kept.resize_discard(entries.size());
  const CompactionMemory compaction = new_compaction(here, tiles_of_entries(entries.size()));
  const EntryLists lists{entries.indices.data(), entries.values.data(), entries.size(), nullptr,
                         kept.indices.data(),    kept.values.data()};
  start_compaction(here, lists, rule, compaction);
  return compaction;
}

/// Overwrites `kept` with the entries that the rule keeps. Waits.
template <class Rule>
void compact_entries(Context& here, const SparseVector& entries, const Rule& rule, SparseVector& kept) {
  if (entries.empty()) return kept.clear();
  const CompactionMemory compaction = start_compaction(here, entries, rule, kept);
  kept.truncate(read(here, compaction).count);
}

}  // namespace dragonn::kernels::cuda
#endif

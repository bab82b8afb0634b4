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

/// A list, and the memory for its kept entries: room for all of them.
struct EntryLists {
  const std::uint32_t* indices;
  const float* values;
  std::size_t size;
  std::uint32_t* kept_indices;
  float* kept_values;
};

/// Compacts a list. A block takes a tile of 2048 entries; a warp takes 256 neighbours, 32 at a time. `Rule` has
/// `__device__ Verdict operator()(std::uint32_t index, float value) const` and
/// `__device__ std::uint32_t most_ties() const`: the ties of lowest place stay, up to this number.
template <class Rule>
__global__ void __launch_bounds__(kThreads) compact_kernel(EntryLists lists, Rule rule, Compaction* compaction) {
  LookBack look_back(compaction);
  const std::size_t tile = look_back.take_tile();
  const std::size_t first = tile * kTileEntries + warp_id() * (kTileEntries / kWarps) + lane_id();
  std::uint32_t indices[kEntriesPerThread];
  float values[kEntriesPerThread];
  unsigned kept[kEntriesPerThread], ties[kEntriesPerThread];  // lanes
  for (unsigned step = 0; step < kEntriesPerThread; ++step) {
    const std::size_t entry = first + step * kWarp;
    indices[step] = entry < lists.size ? lists.indices[entry] : kEmptySlot;
    values[step] = entry < lists.size ? lists.values[entry] : 0.0f;
  }
  std::uint64_t mine = 0;
  for (unsigned step = 0; step < kEntriesPerThread; ++step) {
    const bool is_entry = first + step * kWarp < lists.size;
    const Verdict verdict = is_entry ? rule(indices[step], values[step]) : Verdict::kDrop;
    kept[step] = __ballot_sync(kAllLanes, verdict == Verdict::kKeep);
    ties[step] = __ballot_sync(kAllLanes, verdict == Verdict::kTie);
    mine += static_cast<unsigned>(__popc(kept[step])) |
            static_cast<std::uint64_t>(static_cast<unsigned>(__popc(ties[step]))) << 32;
  }
  std::uint64_t total = 0, before = 0;
  const std::uint64_t place = place_of_warp(look_back, tile, mine, &total, &before);
  const std::uint32_t most_ties = rule.most_ties();
  auto keeps_before = static_cast<std::uint32_t>(place);
  auto ties_before = static_cast<std::uint32_t>(place >> 32);
  for (unsigned step = 0; step < kEntriesPerThread; ++step) {
    const std::uint32_t keeps = keeps_before + bits_before(kept[step]);
    const std::uint32_t tied = ties_before + bits_before(ties[step]);
    const bool is_kept = (kept[step] >> lane_id() & 1u) != 0;
    const bool is_tie = (ties[step] >> lane_id() & 1u) != 0;
    if (is_kept || (is_tie && tied < most_ties)) {
      const std::uint32_t target = keeps + min(tied, most_ties);
      lists.kept_indices[target] = indices[step];
      lists.kept_values[target] = values[step];
    }
    keeps_before += static_cast<unsigned>(__popc(kept[step]));
    ties_before += static_cast<unsigned>(__popc(ties[step]));
  }
  if (tile + 1 == gridDim.x && threadIdx.x == 0) {
    const std::uint64_t all = before + total;
    compaction->count = static_cast<std::uint32_t>(all) + min(static_cast<std::uint32_t>(all >> 32), most_ties);
  }
}

/// Overwrites `kept` with the entries that the rule keeps. Waits.
template <class Rule>
void compact_entries(Context& here, const SparseVector& entries, const Rule& rule, SparseVector& kept) {
  kept.resize_discard(entries.size());
  if (entries.empty()) return;
  const std::size_t tiles = (entries.size() + kTileEntries - 1) / kTileEntries;
  Compaction* const compaction = new_compaction(here, tiles);
  const EntryLists lists{entries.indices.data(), entries.values.data(), entries.size(), kept.indices.data(),
                         kept.values.data()};
  launch(here, "compaction of entries", static_cast<unsigned>(tiles), kThreads, compact_kernel<Rule>, lists, rule,
         compaction);
  kept.truncate(read(here, compaction).count);
}

}  // namespace dragonn::kernels::cuda
#endif

// SPDX-License-Identifier: MIT
/// Look-back: compactions in one pass, with tiles in the order of their tickets and the sums over all tiles before; and
/// the compaction of a list of entries, which keeps those that a rule chooses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "kernels/cuda/runtime.h"

namespace dragonn::kernels::cuda {

/// The result of a compaction for the host. It is zeros before the start.
struct Compaction {
  std::uint32_t count;       ///< entries kept, whether there was room for them or not
  std::uint32_t non_finite;  ///< 1 if NaN or infinity was seen
  float threshold;           ///< the threshold that was compared with
  std::uint32_t tickets;     ///< tickets given to tiles
};
static_assert(sizeof(Compaction) % sizeof(std::uint64_t) == 0);

#ifdef DRAGONN_DEVICE_CODE
__device__ inline unsigned lane_id() {
  return threadIdx.x % kWarp;
}
__device__ inline unsigned warp_id() {
  return threadIdx.x / kWarp;
}
/// Returns how many lanes before this one have their bit set.
__device__ inline unsigned bits_before(unsigned ballot) {
  return __popc(ballot & ((1u << lane_id()) - 1));
}

/// The memory of a compaction: its result, and a word for each tile. All of it is zeros before the start.
struct CompactionMemory {
  Compaction* result;
  std::uint64_t* words;
};

/// Makes compactions of so many tiles each, in the scratch. Their results lie one after the other, for read().
/// @param more bytes of other memory behind them, which is not zeros and begins at `*begin`.
template <std::size_t kCount>
std::array<CompactionMemory, kCount> new_compactions(Context& here, const std::array<std::size_t, kCount>& tiles,
                                                     std::size_t more = 0, std::uint32_t** begin = nullptr) {
  std::size_t bytes = kCount * sizeof(Compaction);
  for (const std::size_t words : tiles) bytes += words * sizeof(std::uint64_t);
  std::byte* const memory = here.scratch(bytes + more);
  if (begin != nullptr) *begin = reinterpret_cast<std::uint32_t*>(memory + bytes);
  check(cudaMemsetAsync(memory, 0, bytes, here.stream()), "cudaMemsetAsync");
  auto* const results = reinterpret_cast<Compaction*>(memory);
  auto* words = reinterpret_cast<std::uint64_t*>(results + kCount);
  std::array<CompactionMemory, kCount> compactions;
  for (std::size_t i = 0; i < kCount; ++i) {
    compactions[i] = {results + i, words};
    words += tiles[i];
  }
  return compactions;
}
inline CompactionMemory new_compaction(Context& here, std::size_t tiles) {
  return new_compactions<1>(here, {tiles})[0];
}

/// Starts to copy the result of a compaction, and of the `count` - 1 that were made together with it, to page-locked
/// memory of the host, where they lie one after the other.
inline void start_reading(const Context& here, const CompactionMemory& first, std::size_t count, Compaction* results) {
  check(cudaMemcpyAsync(results, first.result, count * sizeof(Compaction), cudaMemcpyDeviceToHost, here.stream()),
        "cudaMemcpyAsync");
}
/// Waits for a compaction, and returns its result.
inline Compaction read(Context& here, const CompactionMemory& compaction) {
  auto* const result = static_cast<Compaction*>(here.host_results());
  start_reading(here, compaction, 1, result);
  here.synchronize();
  return *result;
}

/// Decoupled look-back (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016). Each
/// tile publishes its own counts, and later the sum up to its end. A tile that needs the sum before it adds up what the
/// tiles before published, back to the first that knew its sum. A published word is state and sum at once, so that no
/// fence is needed: bits 62 and 63 are the state, bits 32 to 61 count ties, bits 0 to 31 hits.
class LookBack {
 public:
  __device__ explicit LookBack(const CompactionMemory& compaction) : compaction_(compaction) {}

  /// Takes a tile for this block. Tickets are in the order in which blocks start, so all tiles before are running or
  /// done, and waiting for them ends. All threads must call it, again only after place_of_warp().
  __device__ std::size_t take_tile() {
    __shared__ std::uint32_t ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(&compaction_.result->tickets, 1u);
    __syncthreads();
    return ticket;
  }

  /// Returns the counts of all tiles before `tile`, whose own are `own`. All lanes of one warp must call it.
  __device__ std::uint64_t before(std::size_t tile, std::uint64_t own) {
    std::uint64_t sum = 0;
    if (tile > 0) {
      if (lane_id() == 0) publish(tile, kOwn | own);
      auto nearest = static_cast<long long>(tile) - 1;
      while (!add_window(nearest, &sum)) nearest -= kWarp;
    }
    if (lane_id() == 0) publish(tile, kUpToEnd | (sum + own));
    return sum;
  }

 private:
  static constexpr std::uint64_t kOwn = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kUpToEnd = std::uint64_t{2} << 62;
  static constexpr std::uint64_t kState = std::uint64_t{3} << 62;

  __device__ void publish(std::size_t tile, std::uint64_t word) {
    *static_cast<volatile std::uint64_t*>(compaction_.words + tile) = word;
  }
  /// Adds the tiles from `nearest` downwards, a lane each, as far as the first that knows its sum. Returns whether
  /// there was one; before the first tile there is.
  __device__ bool add_window(long long nearest, std::uint64_t* sum) {
    const long long tile = nearest - static_cast<long long>(lane_id());
    std::uint64_t word = kUpToEnd;
    if (tile >= 0) {
      do {
        word = *static_cast<volatile std::uint64_t*>(compaction_.words + tile);
      } while ((word & kState) == 0);
    }
    __syncwarp();
    const unsigned ends = __ballot_sync(kAllLanes, (word & kState) == kUpToEnd);
    const unsigned counted = ends == 0 ? kWarp : static_cast<unsigned>(__ffs(static_cast<int>(ends)));
    std::uint64_t value = lane_id() < counted ? word & ~kState : 0;
    for (unsigned step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    *sum += value;
    return ends != 0;
  }

  CompactionMemory compaction_;
};

/// Returns the sum of `mine` over the lanes up to this one, of the first `lanes`.
template <class T>
__device__ T sum_to_lane(T mine, unsigned lanes = kWarp) {
  for (unsigned step = 1; step < lanes; step *= 2) {
    const T other = __shfl_up_sync(kAllLanes, mine, step);
    if (lane_id() >= step) mine += other;
  }
  return mine;
}

/// Returns the place of a warp's entries: the counts of all tiles before, and of the warps of this tile before this
/// one. `mine` is the warp's counts, the same in all its lanes; `*end` becomes the counts up to the end of the tile.
/// All threads of the block must call it. One warp adds and looks back for all of them.
__device__ inline std::uint64_t place_of_warp(LookBack& look_back, std::size_t tile, std::uint64_t mine,
                                              std::uint64_t* end) {
  __shared__ std::uint64_t places[kWarps + 1];
  if (lane_id() == 0) places[warp_id()] = mine;
  __syncthreads();
  if (warp_id() == 0) {
    const std::uint64_t own = lane_id() < kWarps ? places[lane_id()] : 0;
    const std::uint64_t sum = sum_to_lane(own, kWarps);  // up to the end of the warp that this lane stands for
    const std::uint64_t before = look_back.before(tile, __shfl_sync(kAllLanes, sum, kWarps - 1));
    if (lane_id() < kWarps) places[lane_id()] = before + sum - own;
    if (lane_id() == kWarps - 1) places[kWarps] = before + sum;
  }
  __syncthreads();
  *end = places[kWarps];
  return places[warp_id()];
}

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

#endif
}  // namespace dragonn::kernels::cuda

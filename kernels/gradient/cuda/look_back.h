// SPDX-License-Identifier: MIT
/// Look-back: compactions in one pass, with tiles in the order of their tickets and the sums over all tiles before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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
inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kWarps = kThreads / kWarp;  // of a block

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
template <std::size_t kCount>
std::array<CompactionMemory, kCount> new_compactions(Context& here, const std::array<std::size_t, kCount>& tiles) {
  std::size_t bytes = kCount * sizeof(Compaction);
  for (const std::size_t words : tiles) bytes += words * sizeof(std::uint64_t);
  std::byte* const memory = here.scratch(bytes);
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
    std::uint64_t sum = own;  // up to the end of the warp that this lane stands for
    for (unsigned step = 1; step < kWarps; step *= 2) {
      const std::uint64_t other = __shfl_up_sync(kAllLanes, sum, step);
      if (lane_id() >= step) sum += other;
    }
    const std::uint64_t before = look_back.before(tile, __shfl_sync(kAllLanes, sum, kWarps - 1));
    if (lane_id() < kWarps) places[lane_id()] = before + sum - own;
    if (lane_id() == kWarps - 1) places[kWarps] = before + sum;
  }
  __syncthreads();
  *end = places[kWarps];
  return places[warp_id()];
}

#endif
}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
// Accumulate, and accumulate fused with the selection above a threshold and with the hashing of what is selected.
//
// A block of 256 threads takes a tile of 4096 elements, 16 per thread in four 16-byte accesses per array. A selection
// is compacted in the same pass: a warp's lanes find their places by ballots, warps by the tile's counts, tiles by
// look-back. What is selected claims its slots while the look-back waits. Bytes per element: the arrays that the rule
// reads and writes; beside them 8 per entry, 4 or 8 in its slot, and 16 per tile.
#include <algorithm>

#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/cuda/gradient_sweep.h"
#include "kernels/gradient/sweep_count.h"

namespace dragonn::kernels::cuda {
namespace {

/// The entries to select, and the memory for them.
struct Wanted : SweepSelection {
  std::uint32_t* indices;
  float* values;
  std::size_t capacity;
};

/// Returns the bound of a threshold. The smallest positive number stands for 0: it leaves out the zeros and nothing
/// else.
__device__ float bound_of(float threshold) {
  constexpr float kSmallest = 1.40129846e-45f;
  return threshold < kSmallest ? kSmallest : threshold;
}

/// Returns the hits as bits: bit 4 v + j tells whether element j of vector v is wanted.
__device__ unsigned find_hits(const Four (&acc)[kVectors], std::size_t tile_begin, const Wanted& wanted, float bound) {
  unsigned hits = 0;
  for (unsigned v = 0; v < kVectors; ++v) {
    const std::size_t i = place_of_vector(tile_begin, v);
    for (unsigned j = 0; j < kFour; ++j) {
      const bool hit = fabsf(acc[v].lane[j]) >= bound && i + j >= wanted.range.begin && i + j < wanted.range.end;
      hits |= (hit ? 1u : 0u) << (v * kFour + j);
    }
  }
  return hits;
}

/// Hashes the hits of this thread into their slots.
__device__ void claim_slots(unsigned hits, std::size_t tile_begin, const Slots& slots) {
  for (; hits != 0; hits &= hits - 1) {
    const auto hit = static_cast<unsigned>(__ffs(static_cast<int>(hits))) - 1;
    claim_slot(slots, static_cast<std::uint32_t>(place_of_vector(tile_begin, hit / kFour) + hit % kFour));
  }
}

/// Writes the hits of a warp from `place` on, ascending.
__device__ void write_hits(const Four (&acc)[kVectors], unsigned hits, std::size_t tile_begin, std::size_t place,
                           const Wanted& wanted) {
  for (unsigned v = 0; v < kVectors; ++v) {
    const unsigned mine = hits >> (v * kFour) & 15u;
    if (__ballot_sync(kAllLanes, mine != 0) == 0) continue;
    const auto count = static_cast<unsigned>(__popc(mine));  // 0 to 4: three bits
    std::size_t next = place;
    for (unsigned bit = 0; bit < 3; ++bit) {
      const unsigned lanes = __ballot_sync(kAllLanes, (count >> bit & 1u) != 0);
      next += bits_before(lanes) << bit;
      place += static_cast<unsigned>(__popc(lanes)) << bit;
    }
    const std::size_t i = place_of_vector(tile_begin, v);
    for (unsigned j = 0; j < kFour; ++j) {
      if ((mine >> j & 1u) == 0) continue;
      if (next < wanted.capacity) {
        wanted.indices[next] = static_cast<std::uint32_t>(i + j);
        wanted.values[next] = acc[v].lane[j];
      }
      ++next;
    }
  }
}

__device__ void report_non_finite(const Four (&acc)[kVectors], Compaction* compaction) {
  std::uint32_t largest = 0;
  for (unsigned v = 0; v < kVectors; ++v) {
    for (unsigned j = 0; j < kFour; ++j) largest = max(largest, magnitude_bits(acc[v].lane[j]));
  }
  if (__any_sync(kAllLanes, largest >= kInfinityBits) != 0 && lane_id() == 0) compaction->non_finite = 1;
}

template <AccumulateKind kKind, bool kAligned>
__global__ void __launch_bounds__(kThreads) sweep_kernel(AccumulateJob job, std::size_t numel, Compaction* compaction) {
  Four acc[kVectors];
  accumulate_tile<kKind, kAligned>(job, std::size_t{blockIdx.x} * kTileElements, numel, acc);
  report_non_finite(acc, compaction);
}

template <AccumulateKind kKind, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    select_kernel(AccumulateJob job, Range range, Wanted wanted, Compaction* compaction) {
  LookBack look_back(compaction);
  const std::size_t tile = look_back.take_tile();
  const std::size_t begin = range.begin + tile * kTileElements;
  const float threshold = wanted.threshold.place == nullptr ? wanted.threshold.value : *wanted.threshold.place;
  Four acc[kVectors];
  accumulate_tile<kKind, kAligned>(job, begin, range.end, acc);
  report_non_finite(acc, compaction);
  const unsigned hits = find_hits(acc, begin, wanted, bound_of(threshold));
  if (wanted.slots.words != nullptr) claim_slots(hits, begin, wanted.slots);
  const unsigned mine = __reduce_add_sync(kAllLanes, static_cast<unsigned>(__popc(hits)));
  std::uint64_t total = 0, before = 0;
  const std::uint64_t place = place_of_warp(look_back, tile, mine, &total, &before);
  if (mine > 0) write_hits(acc, hits, begin, place, wanted);
  if (tile + 1 == gridDim.x && threadIdx.x == 0) {
    compaction->count = static_cast<std::uint32_t>(before + total);
    compaction->threshold = threshold;
  }
}

std::size_t tiles_of(std::size_t numel) {
  return (numel + kTileElements - 1) / kTileElements;
}

}  // namespace

bool sweep(Context& here, const AccumulateJob& job, std::size_t numel) {
  if (numel == 0) return false;
  Compaction* const compaction = new_compaction(here, 0);
  with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
    launch(here, "accumulate", static_cast<unsigned>(tiles_of(numel)), kThreads, sweep_kernel<kKind, kAligned>, job,
           numel, compaction);
  });
  return read(here, compaction).non_finite != 0;
}

SweepOutcome sweep_select(Context& here, const AccumulateJob& job, const Range& range, const SweepSelection& selection,
                          SparseVector& selected) {
  if (range.begin == range.end) {
    selected.clear();
    return {.threshold = selection.threshold.value};
  }
  selected.resize_discard(std::min(selected.indices.capacity(), selected.values.capacity()));
  const Wanted entries{selection, selected.indices.data(), selected.values.data(), selected.size()};
  const Range swept{range.begin / kFour * kFour, range.end};  // 16-byte accesses begin at multiples of 4
  const std::size_t tiles = tiles_of(swept.end - swept.begin);
  Compaction* const compaction = new_compaction(here, tiles);
  with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
    launch(here, "accumulate and select", static_cast<unsigned>(tiles), kThreads, select_kernel<kKind, kAligned>, job,
           swept, entries, compaction);
  });
  const Compaction found = read(here, compaction);
  const SweepOutcome outcome{.non_finite = found.non_finite != 0, .threshold = found.threshold};
  if (found.count <= selected.size()) {
    selected.truncate(found.count);
    return outcome;
  }
  selected.resize_discard(found.count);
  const AccumulateJob stored{.gradient = job.kind == AccumulateKind::kExamine ? job.gradient : job.acc};
  const Range& wanted = selection.range;
  count_swept(wanted.end - wanted.begin);
  // All hits were hashed, with and without a place in the list.
  sweep_select(here, stored, wanted, {wanted, {.value = found.threshold}}, selected);
  return outcome;
}

}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
// Accumulate, and accumulate fused with the selection above a threshold and with the hashing of what is selected.
//
// A block of 256 threads takes a tile of 8192 elements, 32 per thread in eight 16-byte accesses per array, of which
// about eight are under way at once. Whether the tile lies within the arrays, and within the wanted range, is asked
// once; only a tile at an end asks for every element. A thread keeps a bit per hit, no values: hits are few, and their
// values are read again, from a cache, when their places are known. A warp's lanes find their places by ballots, warps
// by the tile's counts, tiles by look-back. What is selected claims its slots while the look-back waits. Bytes per
// element: the arrays that the rule reads and writes; beside them 12 per entry, 4 or 8 in its slot, and 8 per tile.
//
// The hits that hold their slots are compacted by a second kernel, which reads the number of hits on the GPU: the host
// waits once, for both lists.
#include <algorithm>
#include <limits>

#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/cuda/compact_entries.h"
#include "kernels/gradient/cuda/gradient_sweep.h"
#include "kernels/gradient/gradient_pass.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr unsigned kSweepVectors = 8;  // of a thread, whose elements fit the bits of a word
constexpr std::size_t kSweepElements = kThreads * kFour * kSweepVectors;

/// The vectors whose loads are under way at once: of all arrays together about eight loads.
template <AccumulateKind kKind>
constexpr unsigned kBatch = kHasMomentum<kKind> ? 2
                            : kHasAcc<kKind>    ? 4
                                                : 8;

/// The blocks per multiprocessor that the registers must suffice for: 64 registers a thread, with momentum 80.
template <AccumulateKind kKind>
constexpr unsigned kSweepBlocks = kHasMomentum<kKind> ? 3 : 4;

/// The entries to select, and the memory for them.
struct Wanted : SweepSelection {
  std::uint32_t* indices;
  float* values;
  std::uint32_t capacity;
};

/// Returns the bound of a threshold. The smallest positive number stands for 0: it leaves out the zeros and nothing
/// else.
__device__ float bound_of(const Threshold& threshold) {
  constexpr float kSmallest = 1.40129846e-45f;
  const float value = threshold.place == nullptr ? threshold.value : *threshold.place;
  return value < kSmallest ? kSmallest : value;
}

/// Returns the offset from a thread's first element of the one that bit 4 v + j stands for: element j of vector v.
__device__ unsigned place_of_bit(unsigned bit) {
  return bit / kFour * kWarpFours + bit % kFour;
}

/// Accumulates and stores the tile that begins at `begin`, and calls see(bit, value) for all its values of this thread.
template <AccumulateKind kKind, bool kAligned, class See>
__device__ void sweep_tile(const AccumulateJob& job, std::size_t begin, std::size_t size, const See& see) {
  const std::size_t first = begin + place_in_tile(kSweepVectors);
  if (begin + kSweepElements <= size) {
    const AccumulateJob mine = job_from<kKind>(job, first);
#pragma unroll
    for (unsigned v = 0; v < kSweepVectors; v += kBatch<kKind>) {
      Four acc[kBatch<kKind>];
      accumulate_vectors<kKind, kAligned>(job_from<kKind>(mine, v * kWarpFours), acc);
#pragma unroll
      for (unsigned element = 0; element < kBatch<kKind> * kFour; ++element)
        see(v * kFour + element, acc[element / kFour].lane[element % kFour]);
    }
    return;
  }
#pragma unroll 1
  for (unsigned bit = 0; bit < kSweepVectors * kFour; ++bit) {
    const std::size_t i = first + place_of_bit(bit);
    if (i < size) see(bit, accumulate_element<kKind>(job, i));
  }
}

/// Tells whether a value that was seen is NaN or infinity. One multiplication per value: finite ones give 0.
class FiniteCheck {
 public:
  __device__ void see(float value) { sum_ = __fmaf_rn(value, 0.0f, sum_); }
  /// Reports what the threads of a warp saw.
  __device__ void report(Compaction* result) const {
    if (__any_sync(kAllLanes, sum_ != sum_) != 0 && lane_id() == 0) result->non_finite = 1;
  }

 private:
  float sum_ = 0;
};

/// Returns the bits of those elements of this thread that lie in the range. `first` is its first.
__device__ unsigned bits_in(const Range& range, std::size_t first) {
  unsigned bits = 0;
#pragma unroll 1
  for (unsigned bit = 0; bit < kSweepVectors * kFour; ++bit) {
    const std::size_t i = first + place_of_bit(bit);
    if (i >= range.begin && i < range.end) bits |= 1u << bit;
  }
  return bits;
}

/// Hashes the hits of this thread into their slots.
__device__ void claim_slots(unsigned hits, std::uint32_t first, const Slots& slots) {
  for (; hits != 0; hits &= hits - 1)
    claim_slot(slots, first + place_of_bit(static_cast<unsigned>(__ffs(static_cast<int>(hits))) - 1));
}

/// Writes the hits of a warp from `place` on, ascending. `acc` has the accumulated values.
__device__ void write_hits(const float* acc, unsigned hits, std::uint32_t first, std::uint32_t place,
                           const Wanted& wanted) {
  constexpr unsigned kVector = 15;  // the bits of one vector
  for (unsigned left = __reduce_or_sync(kAllLanes, hits); left != 0;) {
    const unsigned shift = (static_cast<unsigned>(__ffs(static_cast<int>(left))) - 1) / kFour * kFour;
    left &= ~(kVector << shift);
    unsigned mine = hits >> shift & kVector;
    const auto count = static_cast<unsigned>(__popc(mine));  // 0 to 4: three bits
    std::uint32_t next = place;
    for (unsigned bit = 0; bit < 3; ++bit) {
      const unsigned lanes = __ballot_sync(kAllLanes, (count >> bit & 1u) != 0);
      next += bits_before(lanes) << bit;
      place += static_cast<unsigned>(__popc(lanes)) << bit;
    }
    for (; mine != 0 && next < wanted.capacity; mine &= mine - 1, ++next) {
      const std::uint32_t i = first + place_of_bit(shift + static_cast<unsigned>(__ffs(static_cast<int>(mine))) - 1);
      wanted.indices[next] = i;
      wanted.values[next] = acc[i];
    }
  }
}

template <AccumulateKind kKind, bool kAligned>
__global__ void __launch_bounds__(kThreads, kSweepBlocks<kKind>)
    sweep_kernel(AccumulateJob job, std::size_t numel, Compaction* result) {
  FiniteCheck check;
  sweep_tile<kKind, kAligned>(job, blockIdx.x * kSweepElements, numel,
                              [&](unsigned, float value) { check.see(value); });
  check.report(result);
}

/// Accumulates a tile and returns its hits as bits, wherever the wanted range begins and ends.
template <AccumulateKind kKind, bool kAligned>
__device__ unsigned find_hits(const AccumulateJob& job, std::size_t begin, std::size_t size, const Wanted& wanted,
                              float bound, Compaction* result) {
  unsigned hits = 0;
  FiniteCheck check;
  sweep_tile<kKind, kAligned>(job, begin, size, [&](unsigned bit, float value) {
    if (fabsf(value) >= bound) hits |= 1u << bit;
    check.see(value);
  });
  check.report(result);
  const std::size_t end = begin + kSweepElements;
  if (begin >= wanted.range.begin && end <= wanted.range.end) return hits;
  if (begin >= wanted.range.end || end <= wanted.range.begin) return 0;
  return hits & bits_in(wanted.range, begin + place_in_tile(kSweepVectors));
}

template <AccumulateKind kKind, bool kAligned>
__global__ void __launch_bounds__(kThreads, kSweepBlocks<kKind>)
    select_kernel(AccumulateJob job, Range range, Wanted wanted, CompactionMemory compaction) {
  LookBack look_back(compaction);
  const std::size_t tile = look_back.take_tile();
  const std::size_t begin = range.begin + tile * kSweepElements;
  const unsigned hits =
      find_hits<kKind, kAligned>(job, begin, range.end, wanted, bound_of(wanted.threshold), compaction.result);
  const std::uint32_t first = static_cast<std::uint32_t>(begin) + place_in_tile(kSweepVectors);
  if (wanted.slots.words != nullptr) claim_slots(hits, first, wanted.slots);
  const unsigned mine = __reduce_add_sync(kAllLanes, static_cast<unsigned>(__popc(hits)));
  std::uint64_t end = 0;
  const auto place = static_cast<std::uint32_t>(place_of_warp(look_back, tile, mine, &end));
  if (mine > 0) write_hits(kStores<kKind> ? job.acc : job.gradient, hits, first, place, wanted);
  if (tile + 1 == gridDim.x && threadIdx.x == 0) {
    const Threshold& threshold = wanted.threshold;
    compaction.result->count = static_cast<std::uint32_t>(end);
    compaction.result->threshold = threshold.place == nullptr ? threshold.value : *threshold.place;
  }
}

struct HoldsSlot {
  Slots slots;
  __device__ Verdict operator()(std::uint32_t index, float /*value*/) const {
    return holds_slot(slots, index) ? Verdict::kKeep : Verdict::kDrop;
  }
  __device__ std::uint32_t max_ties() const { return 0; }
};

/// Starts the compaction of the hits that hold their slots, of the sweep's `hits`, whose number is on the GPU. No more
/// can stay than there are slots.
void start_holders(const Context& here, const Wanted& hits, const Compaction* found,
                   const CompactionMemory& compaction) {
  SparseVector& holders = *hits.holders;
  holders.resize_discard(std::min<std::size_t>(hits.capacity, hits.slots.rule.slot.slots));
  if (hits.capacity == 0) return;
  const EntryLists lists{hits.indices,           hits.values,          hits.capacity, &found->count,
                         holders.indices.data(), holders.values.data()};
  start_compaction(here, lists, HoldsSlot{hits.slots}, compaction);
}

std::size_t tiles_of(std::size_t numel) {
  return (numel + kSweepElements - 1) / kSweepElements;
}

}  // namespace

void start_sweep(Context& here, const AccumulateJob& job, std::size_t numel, SweepReport& report) {
  report.hits = {};
  if (numel == 0) return;
  const CompactionMemory compaction = new_compaction(here, 0);
  with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
    launch(here, "accumulate", static_cast<unsigned>(tiles_of(numel)), kThreads, sweep_kernel<kKind, kAligned>, job,
           numel, compaction.result);
  });
  start_reading(here, compaction, 1, &report.hits);
}

void start_select(Context& here, const AccumulateJob& job, const Range& range, const SweepSelection& selection,
                  SparseVector& selected, SweepReport& report) {
  report = {};
  report.hits.threshold = selection.threshold.value;
  if (range.begin == range.end) {
    selected.clear();
    if (selection.holders != nullptr) selection.holders->clear();
    return;
  }
  selected.resize_discard(std::min(selected.indices.capacity(), selected.values.capacity()));
  constexpr std::size_t kMaxPlaces = std::numeric_limits<std::uint32_t>::max();
  const Wanted hits{selection, selected.indices.data(), selected.values.data(),
                    static_cast<std::uint32_t>(std::min(selected.size(), kMaxPlaces))};
  const Range swept{range.begin / kFour * kFour, range.end};  // 16-byte accesses begin at multiples of 4
  const std::size_t tiles = tiles_of(swept.end - swept.begin);
  const std::size_t hit_tiles = selection.holders == nullptr ? 0 : tiles_of_entries(hits.capacity);
  const auto compactions = new_compactions<2>(here, {tiles, hit_tiles});
  with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
    launch(here, "accumulate and select", static_cast<unsigned>(tiles), kThreads, select_kernel<kKind, kAligned>, job,
           swept, hits, compactions[0]);
  });
  if (selection.holders != nullptr) start_holders(here, hits, compactions[0].result, compactions[1]);
  start_reading(here, compactions[0], compactions.size(), &report.hits);
}

SweepOutcome finish_select(Context& here, const float* acc, const SweepSelection& selection, SparseVector& selected,
                           const SweepReport& report) {
  const Compaction found = report.hits;  // a second pass may overwrite the report
  const SweepOutcome outcome{.non_finite = found.non_finite != 0, .threshold = found.threshold};
  if (found.count <= selected.size()) {
    selected.truncate(found.count);
    if (selection.holders != nullptr) selection.holders->truncate(report.holders.count);
    return outcome;
  }
  selected.resize_discard(found.count);
  const Range& wanted = selection.range;
  count_swept(wanted.end - wanted.begin);
  // All hits were hashed, with and without a place in the list. Hashing them again changes no slot's maximum.
  sweep_select(here, {.gradient = acc}, wanted,
               {wanted, {.value = found.threshold}, selection.slots, selection.holders}, selected);
  return outcome;
}

SweepOutcome sweep_select(Context& here, const AccumulateJob& job, const Range& range, const SweepSelection& selection,
                          SparseVector& selected) {
  start_select(here, job, range, selection, selected, here_and_now(here));
  here.synchronize();
  return finish_select(here, stored_acc(job), selection, selected, here_and_now(here));
}

}  // namespace dragonn::kernels::cuda

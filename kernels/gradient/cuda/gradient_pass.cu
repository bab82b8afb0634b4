// SPDX-License-Identifier: MIT
// Accumulate; accumulate fused with the moments of what acc becomes, in double; and fused with the selection above a
// threshold and with the hashing of what is selected.
//
// A warp takes a chunk of neighbours, 1024 in a round: 32 per thread in eight 16-byte accesses per array, of which
// about eight are under way at once. Whether the round lies within the arrays, and within the wanted range, is asked
// once; only a round at an end asks for every element. A thread keeps a bit per hit, no values: hits are few, and their
// values are read again, from a cache, when their places are known. A warp's lanes find their places by ballots.
//
// A selection has two kernels. In the first no warp waits for another: each appends its hits to a segment of its own.
// The second adds up the counts before each segment and packs the segments; a warp with more hits than its segment has
// room for searches its chunk once more. Bytes per element: the arrays that the rule reads and writes; beside them 24
// per entry, 4 or 8 in its slot, and 4 per chunk.
//
// The hits that hold their slots are compacted by a third kernel, which reads the number of hits on the GPU: the host
// waits once, for both lists.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <new>

#include "kernels/cuda/block_reduce.h"
#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/cuda/look_back.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/hash_select.h"
#include "kernels/gradient/select.h"

namespace dragonn::kernels::cuda {
namespace {

/// A table of slots. A slot holds the largest of the keys that claimed it, which does not depend on the order, and is
/// the same as on the CPU: an index counted from 1, in 4 bytes, or a random key, in 8. An empty slot is 0. One index
/// may have the random key 0: it then holds a slot that nothing else was written to, as it should.
struct Slots {
  HashRule rule = {};
  void* words = nullptr;  ///< null if there is no table
};

/// Returns the table of a choice as the last pass left it; none without a choice.
Slots filled_slots(const HashChoice& choice) {
  return choice.scratch == nullptr ? Slots{} : Slots{choice.rule, choice.scratch->table.data()};
}

/// Returns the table of a choice with all slots empty; none without a choice. Writes 4 bytes per slot, by priority 8.
Slots empty_slots(Context& here, const HashChoice& choice) {
  if (choice.scratch == nullptr) return {};
  Buffer<std::uint32_t>& memory = choice.scratch->table;
  memory.resize_discard(choice.rule.slot.slots * (choice.rule.by_priority ? 2 : 1));
  check(cudaMemsetAsync(memory.data(), 0, memory.size() * sizeof(std::uint32_t), here.stream()), "cudaMemsetAsync");
  return filled_slots(choice);
}

using IndexWord = unsigned int;
using PriorityWord = unsigned long long;

__device__ IndexWord index_key(std::uint32_t index) {
  return index + 1;  // below kEmptySlot
}
__device__ PriorityWord priority_key(const HashRule& rule, std::uint32_t index) {
  return SlotPriority{rule.slot.salt}(index);
}

__device__ void claim_slot(const Slots& slots, std::uint32_t index) {
  const std::size_t slot = slots.rule.slot(index);
  if (slots.rule.by_priority) {
    atomicMax(static_cast<PriorityWord*>(slots.words) + slot, priority_key(slots.rule, index));
  } else {
    atomicMax(static_cast<IndexWord*>(slots.words) + slot, index_key(index));
  }
}

__device__ bool holds_slot(const Slots& slots, std::uint32_t index) {
  const std::size_t slot = slots.rule.slot(index);
  return slots.rule.by_priority ? static_cast<const PriorityWord*>(slots.words)[slot] == priority_key(slots.rule, index)
                                : static_cast<const IndexWord*>(slots.words)[slot] == index_key(index);
}

/// A threshold: given, or at an address on the GPU that an earlier kernel writes.
struct Threshold {
  float value = 0;
  const float* place = nullptr;
};

/// The entries that a sweep selects.
struct SweepSelection {
  Range range;  ///< part of the accumulated elements
  Threshold threshold;
  Slots slots = {};                 ///< slots that the selected entries are hashed into, if there are any
  SparseVector* holders = nullptr;  ///< overwritten with those that hold their slots; null without slots
};

/// Sums over acc.
struct MomentSums {
  double sum = 0;
  double sum_squares = 0;
  double signed_sum = 0;
  std::uint64_t largest = 0;  ///< the bits of a magnitude, so that a NaN stays

  __device__ void see(float value) {
    const double wide = value;
    sum += fabs(wide);
    sum_squares += wide * wide;
    signed_sum += wide;
    largest = max(largest, std::uint64_t{magnitude_bits(value)});
  }
  __device__ void add(const MomentSums& other) {
    sum += other.sum;
    sum_squares += other.sum_squares;
    signed_sum += other.signed_sum;
    largest = max(largest, other.largest);
  }
};

/// The report of a sweep. The sweep's function starts a copy to it, for which the caller waits: it is page-locked
/// memory of the host.
struct SweepReport {
  Compaction hits = {};     ///< of sweeps without moments; without a selection only `non_finite` counts
  Compaction holders = {};  ///< of the hits that hold their slots
  MomentSums moments = {};
};
static_assert(sizeof(SweepReport) <= Context::kResultBytes);
static_assert(offsetof(SweepReport, holders) == sizeof(Compaction), "compactions are copied back together");

/// Returns the place of acc after a sweep: that of the gradient, if the sweep stores none.
const float* stored_acc(const AccumulateJob& job) {
  return job.kind == AccumulateKind::kExamine ? job.gradient : job.acc;
}

/// Returns the report of a sweep that its caller waits for at once.
SweepReport& here_and_now(Context& here) {
  return *static_cast<SweepReport*>(here.host_results());
}

constexpr unsigned kSweepVectors = 8;                    // of a thread, whose elements fit the bits of a word
constexpr unsigned kRound = kWarpFours * kSweepVectors;  // elements of a warp

/// The vectors whose loads are under way at once: of all arrays together about eight loads.
template <AccumulateKind kKind>
constexpr unsigned kBatch = kHasState<kKind>                        ? 2
                            : kHasAcc<kKind> || kHasEstimate<kKind> ? 4
                                                                    : 8;

/// The blocks per multiprocessor that the registers must suffice for: 64 registers a thread, with a state 80.
template <AccumulateKind kKind>
constexpr unsigned kSweepBlocks = kHasState<kKind> ? 3 : 4;

/// The memory of a list.
struct Places {
  std::uint32_t* indices;
  float* values;
  std::uint32_t capacity;
};

/// The segments of a selection's warps, and their chunks of the range. The last chunks may be short or empty.
struct Segments {
  std::size_t chunk;        ///< elements of a warp, a multiple of kRound
  unsigned blocks;          ///< of kWarps warps
  std::uint32_t* of_block;  ///< hits of each block, with and without room
  std::uint32_t* of_warp;   ///< the same of each warp
  Places places;            ///< one segment after the other; its capacity is that of a segment

  __device__ Places of(std::size_t warp) const {
    const std::size_t first = warp * places.capacity;
    return {places.indices + first, places.values + first, places.capacity};
  }
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

/// Accumulates and stores a round, and calls see(bit, value) for all its values of this thread. `first` is the thread's
/// first element.
template <AccumulateKind kKind, bool kAligned, class See>
__device__ void sweep_round(const AccumulateJob& job, std::size_t first, std::size_t size, const See& see) {
  if (first - lane_id() * kFour + kRound <= size) {
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

/// Writes the hits of a warp from `place` on, ascending. `acc` has the accumulated values, `first` is the thread's
/// first element.
__device__ void write_hits(const float* acc, unsigned hits, std::uint32_t first, std::uint32_t place,
                           const Places& to) {
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
    for (; mine != 0 && next < to.capacity; mine &= mine - 1, ++next) {
      const std::uint32_t i = first + place_of_bit(shift + static_cast<unsigned>(__ffs(static_cast<int>(mine))) - 1);
      to.indices[next] = i;
      to.values[next] = acc[i];
    }
  }
}

template <AccumulateKind kKind, bool kAligned>
__global__ void __launch_bounds__(kThreads, kSweepBlocks<kKind>)
    sweep_kernel(AccumulateJob job, std::size_t numel, Compaction* result) {
  FiniteCheck check;
  const std::size_t begin = (std::size_t{blockIdx.x} * kWarps + warp_id()) * kRound;
  sweep_round<kKind, kAligned>(job, begin + lane_id() * kFour, numel, [&](unsigned, float value) { check.see(value); });
  check.report(result);
}

/// Accumulates a round that begins at `begin` and returns this thread's hits as bits, wherever the wanted range begins
/// and ends.
template <AccumulateKind kKind, bool kAligned>
__device__ unsigned find_hits(const AccumulateJob& job, std::size_t begin, std::size_t size, const Range& wanted,
                              float bound, FiniteCheck& check) {
  unsigned hits = 0;
  const std::size_t first = begin + lane_id() * kFour, end = begin + kRound;
  sweep_round<kKind, kAligned>(job, first, size, [&](unsigned bit, float value) {
    if (fabsf(value) >= bound) hits |= 1u << bit;
    check.see(value);
  });
  if (begin >= wanted.begin && end <= wanted.end) return hits;
  return hits & bits_in(wanted, first);
}

/// Writes the hits of a chunk from `place` on, and returns their number.
template <AccumulateKind kKind, bool kAligned>
__device__ std::uint32_t select_chunk(const AccumulateJob& job, const Range& chunk, std::size_t size,
                                      const SweepSelection& selection, FiniteCheck& check, std::uint32_t place,
                                      const Places& to) {
  const float bound = bound_of(selection.threshold);
  const std::uint32_t begin = place;
  for (std::size_t i = chunk.begin; i < chunk.end; i += kRound) {
    const unsigned hits = find_hits<kKind, kAligned>(job, i, size, selection.range, bound, check);
    const unsigned found = __reduce_add_sync(kAllLanes, static_cast<unsigned>(__popc(hits)));
    if (found == 0) continue;
    const std::uint32_t first = static_cast<std::uint32_t>(i) + lane_id() * kFour;
    if (selection.slots.words != nullptr) claim_slots(hits, first, selection.slots);
    write_hits(kStores<kKind> ? job.acc : job.gradient, hits, first, place, to);
    place += found;
  }
  return place - begin;
}

/// Returns the part of the range that a warp sweeps.
__device__ Range chunk_of(const Range& range, const Segments& segments, std::size_t warp) {
  const std::size_t begin = min(range.begin + warp * segments.chunk, range.end);
  return {begin, min(begin + segments.chunk, range.end)};
}

template <AccumulateKind kKind, bool kAligned>
__global__ void __launch_bounds__(kThreads, kSweepBlocks<kKind>)
    select_kernel(AccumulateJob job, Range range, SweepSelection selection, Segments segments, Compaction* result) {
  __shared__ std::uint32_t counts[kWarps];
  const std::size_t warp = std::size_t{blockIdx.x} * kWarps + warp_id();
  FiniteCheck check;
  const std::uint32_t count = select_chunk<kKind, kAligned>(job, chunk_of(range, segments, warp), range.end, selection,
                                                            check, 0, segments.of(warp));
  check.report(result);
  if (lane_id() == 0) segments.of_warp[warp] = counts[warp_id()] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  std::uint32_t sum = 0;
  for (const std::uint32_t of_warp : counts) sum += of_warp;
  segments.of_block[blockIdx.x] = sum;
}

/// Moves a block's segments to the list. A segment without room for all hits of its chunk is not read: the hits are
/// found again in `acc`, where the first kernel has stored what it compared.
__global__ void __launch_bounds__(kThreads) pack_kernel(const float* acc, Range range, SweepSelection selection,
                                                        Segments segments, Places list, Compaction* result) {
  __shared__ std::uint32_t sums[kWarps];
  std::uint32_t mine = 0;
#pragma unroll 4
  for (unsigned block = threadIdx.x; block < blockIdx.x; block += kThreads) mine += segments.of_block[block];
  mine = __reduce_add_sync(kAllLanes, mine);
  if (lane_id() == 0) sums[warp_id()] = mine;
  __syncthreads();
  std::uint32_t place = 0;
  for (const std::uint32_t sum : sums) place += sum;
  if (blockIdx.x + 1 == gridDim.x && threadIdx.x == 0) {
    const Threshold& threshold = selection.threshold;
    result->count = place + segments.of_block[blockIdx.x];
    result->threshold = threshold.place == nullptr ? threshold.value : *threshold.place;
  }
  const std::size_t first = std::size_t{blockIdx.x} * kWarps, warp = first + warp_id();
  for (std::size_t other = first; other < warp; ++other) place += segments.of_warp[other];
  const std::uint32_t count = segments.of_warp[warp];
  const Places segment = segments.of(warp);
  if (count > segment.capacity) {
    FiniteCheck seen_before;
    selection.slots = {};  // which all hits have claimed
    select_chunk<AccumulateKind::kExamine, false>({.gradient = acc}, chunk_of(range, segments, warp), range.end,
                                                  selection, seen_before, place, list);
    return;
  }
  for (std::uint32_t entry = lane_id(); entry < count && place + entry < list.capacity; entry += kWarp) {
    list.indices[place + entry] = segment.indices[entry];
    list.values[place + entry] = segment.values[entry];
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
void start_holders(const Context& here, const SweepSelection& selection, const Places& hits, const Compaction* found,
                   const CompactionMemory& compaction) {
  SparseVector& holders = *selection.holders;
  holders.resize_discard(std::min<std::size_t>(hits.capacity, selection.slots.rule.slot.slots));
  if (hits.capacity == 0) return;
  const EntryLists lists{hits.indices,           hits.values,          hits.capacity, &found->count,
                         holders.indices.data(), holders.values.data()};
  start_compaction(here, lists, HoldsSlot{selection.slots}, compaction);
}

/// Returns the segments for a selection from `size` elements, without memory. Their blocks come in several turns, so
/// that the last one is short; and they are few, because the second kernel adds up their counts. A segment has room for
/// one element in 32.
Segments segments_for(std::size_t size) {
  constexpr std::size_t kMaxBlocks = 4096, kBlockRound = kWarps * kRound, kShare = 32;
  const std::size_t rounds = (size + kBlockRound - 1) / kBlockRound;
  const std::size_t of_warp = (rounds + kMaxBlocks - 1) / kMaxBlocks;
  return {
      .chunk = of_warp * kRound,
      .blocks = static_cast<unsigned>((rounds + of_warp - 1) / of_warp),
      .of_block = nullptr,
      .of_warp = nullptr,
      .places = {
          .indices = nullptr, .values = nullptr, .capacity = static_cast<std::uint32_t>(of_warp * kRound / kShare)}};
}

/// The results of a sweep's two compactions, for start_reading(), and the memory of its segments.
struct SelectMemory {
  std::array<CompactionMemory, 2> compactions;
  Segments segments;
};

/// Makes the memory of a selection in the scratch. @param hit_tiles of the compaction of the hits.
SelectMemory new_selection(Context& here, std::size_t size, std::size_t hit_tiles) {
  SelectMemory memory{{}, segments_for(size)};
  Segments& segments = memory.segments;
  const std::size_t warps = std::size_t{segments.blocks} * kWarps, entries = warps * segments.places.capacity;
  std::uint32_t* words = nullptr;
  memory.compactions =
      new_compactions<2>(here, {0, hit_tiles}, (segments.blocks + warps + 2 * entries) * sizeof(*words), &words);
  segments.of_block = words;
  segments.of_warp = segments.of_block + segments.blocks;
  segments.places.indices = segments.of_warp + warps;
  segments.places.values = reinterpret_cast<float*>(segments.places.indices + entries);
  return memory;
}

template <AccumulateKind kKind, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    moments_kernel(AccumulateJob job, std::size_t numel, OrderedSum<MomentSums>* total) {
  MomentSums mine;
  accumulate_in_turns<kKind, kAligned>(job, numel, [&](float value) { mine.see(value); });
  finish_sum(mine, total);
}

Moments moments_of(const MomentSums& totals) {
  return {.sum = totals.sum,
          .sum_squares = totals.sum_squares,
          .signed_sum = totals.signed_sum,
          .largest = std::bit_cast<float>(static_cast<std::uint32_t>(totals.largest))};
}

/// Starts to accumulate `numel` elements. 4 bytes per array read, 4 per array written.
void start_sweep(Context& here, const AccumulateJob& job, std::size_t numel, SweepReport& report) {
  report.hits = {};
  if (numel == 0) return;
  const CompactionMemory compaction = new_compaction(here, 0);
  with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
    launch(here, "accumulate", static_cast<unsigned>((numel + kWarps * kRound - 1) / (kWarps * kRound)), kThreads,
           sweep_kernel<kKind, kAligned>, job, numel, compaction.result);
  });
  start_reading(here, compaction, 1, &report.hits);
}

/// Starts to accumulate `numel` elements and to add up the moments of acc: at most 1024 blocks, each of which takes
/// every 1024th tile of 4096 elements; their sums are added in order.
void start_moments(Context& here, const AccumulateJob& job, std::size_t numel, SweepReport& report) {
  report.moments = {};
  if (numel == 0) return;
  const auto start = [&](OrderedSum<MomentSums>* total) {
    const unsigned blocks = sum_blocks(numel, kTileElements);
    with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
      launch(here, "accumulate and moments", blocks, kThreads, moments_kernel<kKind, kAligned>, job, numel, total);
    });
  };
  start_ordered_sum<MomentSums>(here, start, &report.moments);
}

/// Starts to accumulate `range`, and in the same pass to select the wanted entries that reach the threshold and are not
/// zero, ascending. They overwrite `selected`, as many as fit its memory. Its size is that of the memory, and so is
/// that of the holders, until finish_select().
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
  const Places list{selected.indices.data(), selected.values.data(),
                    static_cast<std::uint32_t>(std::min(selected.size(), kMaxPlaces))};
  const Range swept{range.begin / kFour * kFour, range.end};  // 16-byte accesses begin at multiples of 4
  const std::size_t hit_tiles = selection.holders == nullptr ? 0 : tiles_of_entries(list.capacity);
  const SelectMemory memory = new_selection(here, swept.end - swept.begin, hit_tiles);
  const auto& [compactions, segments] = memory;
  with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
    launch(here, "accumulate and select", segments.blocks, kThreads, select_kernel<kKind, kAligned>, job, swept,
           selection, segments, compactions[0].result);
  });
  launch(here, "pack the selected entries", segments.blocks, kThreads, pack_kernel, stored_acc(job), swept, selection,
         segments, list, compactions[0].result);
  if (selection.holders != nullptr) start_holders(here, selection, list, compactions[0].result, compactions[1]);
  start_reading(here, compactions[0], compactions.size(), &report.hits);
}

void sweep_select(Context& here, const float* acc, const SweepSelection& selection, SparseVector& selected);

/// Sets the sizes of the lists of start_select() after a wait. If the entries did not fit, the memory grows, and a
/// second pass over `acc`, which was stored, fills it and waits. The slots must be as the first pass left them.
void finish_select(Context& here, const float* acc, const SweepSelection& selection, SparseVector& selected,
                   const SweepReport& report) {
  const Compaction found = report.hits;  // a second pass may overwrite the report
  if (found.count <= selected.size()) {
    selected.truncate(found.count);
    if (selection.holders != nullptr) selection.holders->truncate(report.holders.count);
    return;
  }
  const std::size_t most = selection.range.end - selection.range.begin;
  resize_with_slack(selected, found.count, most);
  count_swept(most);
  // All hits were hashed, with and without a place in the list. Hashing them again changes no slot's maximum.
  SweepSelection again = selection;
  again.threshold = {.value = found.threshold};
  sweep_select(here, acc, again, selected);
}

/// Selects from an acc that is stored. Waits once per pass.
void sweep_select(Context& here, const float* acc, const SweepSelection& selection, SparseVector& selected) {
  start_select(here, {.gradient = acc}, selection.range, selection, selected, here_and_now(here));
  here.synchronize();
  finish_select(here, acc, selection, selected, here_and_now(here));
}

/// Returns what a request selects, with these slots.
SweepSelection selection_of(const PassRequest& request, const Threshold& threshold, const Slots& slots) {
  return {{request.begin, request.end},
          threshold,
          slots,
          request.hash.scratch == nullptr ? nullptr : &request.hash.scratch->holders};
}

/// Keeps an array that a pass will overwrite, if that is wanted.
void keep(Context& here, const float* array, std::size_t numel, float* kept) {
  if (kept == nullptr) return;
  check(cudaMemcpyAsync(kept, array, numel * sizeof(float), cudaMemcpyDeviceToDevice, here.stream()),
        "cudaMemcpyAsync");
}

void start_pass(Context& here, const AccumulateJob& job, const PassRequest& request, std::size_t numel,
                PassResult& result, SweepReport& report) {
  keep(here, job.acc, numel, job.acc_before);
  keep(here, job.state, numel, job.state_before);
  if (request.kind == PassRequest::Kind::kNone) return start_sweep(here, job, numel, report);
  if (request.kind == PassRequest::Kind::kMoments) return start_moments(here, job, numel, report);
  Threshold threshold{.value = request.threshold};
  if (request.kind == PassRequest::Kind::kSampledThreshold)
    threshold = {.place = sample_on_device(here, job, request.sample, numel, result.sample)};
  start_select(here, job, {0, numel}, selection_of(request, threshold, empty_slots(here, request.hash)),
               result.selected, report);
}

/// Sets the result of a pass from its report, after a wait.
void end_pass(Context& here, const float* acc, const SweepReport& report, PassResult& result) {
  const PassRequest& request = result.request;
  if (selects(request)) {
    result.threshold = report.hits.threshold;
    result.non_finite = report.hits.non_finite != 0;
    return finish_select(here, acc, selection_of(request, {}, filled_slots(request.hash)), result.selected, report);
  }
  result.selected.clear();
  if (request.kind == PassRequest::Kind::kMoments) result.moments = moments_of(report.moments);
  result.non_finite = request.kind == PassRequest::Kind::kMoments ? !std::isfinite(result.moments.largest)
                                                                  : report.hits.non_finite != 0;
}

void pass(const AccumulateJob& job, const PassRequest& request, std::size_t numel, PassResult& result) {
  Context& here = context(result.device());
  count_swept(numel);
  if (request.deferred) {
    result.report.resize_discard(sizeof(SweepReport));
    start_pass(here, job, request, numel, result, *new (result.report.data()) SweepReport);
    result.unfinished = stored_acc(job);
    return;
  }
  start_pass(here, job, request, numel, result, here_and_now(here));
  here.synchronize();
  end_pass(here, stored_acc(job), here_and_now(here), result);
}

void finish(PassResult& result) {
  const auto& report = *reinterpret_cast<const SweepReport*>(result.report.data());
  end_pass(context(result.device()), result.unfinished, report, result);
}

void select(View<const float> values, float threshold, std::size_t begin, std::size_t end, SparseVector& selected) {
  count_swept(end - begin);
  select_uncounted(values, threshold, {begin, end}, selected);
}

Moments moments(View<const float> values) {
  count_swept(values.size());
  Context& here = context(values.device());
  start_moments(here, {.gradient = values.data()}, values.size(), here_and_now(here));
  here.synchronize();
  return moments_of(here_and_now(here).moments);
}

/// The pass has found the hits that stay.
void hash_select(const SparseVector& /*hits*/, const HashChoice& choice, SparseVector& kept) {
  copy_entries(choice.scratch->holders, kept);
}

[[maybe_unused]] const bool registered = kernels::detail::gradient_pass_rows.add(DeviceType::kCuda, pass) &&
                                         kernels::detail::finish_pass_rows.add(DeviceType::kCuda, finish) &&
                                         kernels::select_threshold_in.add(DeviceType::kCuda, select) &&
                                         kernels::magnitude_moments.add(DeviceType::kCuda, moments) &&
                                         kernels::hash_select.add(DeviceType::kCuda, hash_select);

}  // namespace

void select_uncounted(View<const float> values, float threshold, const Range& range, SparseVector& selected) {
  sweep_select(context(values.device()), values.data(), {range, {.value = threshold}}, selected);
}

}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/gradient_pass_sweep.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/partial_sums-inl.h"
#include "kernels/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int32_t kInfinityBits = 0x7f800000;

// Multiplications and additions stay apart: fused ones would round differently on machines that have them.

/// Returns acc of the lanes from element i, and stores it (with the state) if kStore.
template <AccumulateKind kKind, bool kStore, class D>
HWY_INLINE hn::Vec<D> accumulate(D d, const AccumulateJob& job, std::size_t i) {
  const auto raw = hn::LoadU(d, job.gradient + i);
  if constexpr (kKind == AccumulateKind::kExamine) return raw;
  const auto gradient = hn::Mul(hn::Set(d, job.scale), raw);
  const auto factor = hn::Set(d, job.factor);
  auto acc = gradient;
  if constexpr (kKind == AccumulateKind::kResidual) {
    acc = hn::Add(hn::Mul(factor, hn::LoadU(d, job.acc + i)), gradient);
  } else if constexpr (kHasState<kKind>) {
    const auto old = hn::LoadU(d, job.state + i);
    const auto take = hn::Set(d, job.take), out = hn::Set(d, job.out);
    auto state = old;
    if constexpr (kKind == AccumulateKind::kMomentumDifference) {
      state = hn::Add(hn::Mul(factor, old), gradient);
      acc = hn::Add(hn::Mul(out, state), hn::Mul(take, gradient));
    } else {
      const auto velocity = hn::LoadU(d, job.acc + i);
      if constexpr (kKind == AccumulateKind::kHeavyBall) {
        state = hn::Add(hn::Mul(factor, old), gradient);
        acc = hn::Add(velocity, state);
      } else if constexpr (kKind == AccumulateKind::kNesterov) {
        state = hn::Mul(factor, hn::Add(old, gradient));
        acc = hn::Add(hn::Add(velocity, state), gradient);
      } else {
        state = hn::Add(hn::Mul(factor, old), hn::Mul(take, velocity));
        acc = hn::Add(hn::Mul(out, state), gradient);
      }
    }
    if constexpr (kStore) hn::StoreU(state, d, job.state + i);
  }
  if constexpr (kHasEstimate<kKind>) acc = hn::Sub(acc, hn::LoadU(d, job.estimate + i));
  if constexpr (kStore) hn::StoreU(acc, d, job.acc + i);
  return acc;
}

/// Returns whether software asks for memory ahead. Intel's prefetchers alone leave a quarter of the bandwidth unused;
/// AMD's use all of it (Zen 4), and a pass that gets in their way is a quarter slower.
inline bool is_prefetching() {
#if HWY_ARCH_X86
  static const bool kIsIntel = __builtin_cpu_is("intel");
  return kIsIntel;
#else
  return false;
#endif
}

/// The distance of prefetches, 8 KiB.
constexpr std::size_t kPrefetchElements = 2048;

/// Prefetches `count` elements, kPrefetchElements ahead of element i; beyond the end, too: a prefetch never faults.
HWY_INLINE void prefetch_lines(const float* values, std::size_t i, std::size_t count) {
  for (std::size_t element = 0; element < count; element += kLineElements)
    hwy::Prefetch(values + i + kPrefetchElements + element);
}

/// Prefetches all that accumulate() will load.
template <AccumulateKind kKind>
HWY_INLINE void prefetch(const AccumulateJob& job, std::size_t i, std::size_t count) {
  prefetch_lines(job.gradient, i, count);
  if constexpr (kHasAcc<kKind>) prefetch_lines(job.acc, i, count);
  if constexpr (kHasState<kKind>) prefetch_lines(job.state, i, count);
  if constexpr (kHasEstimate<kKind>) prefetch_lines(job.estimate, i, count);
}

/// Tracks the largest magnitude by its bits: a NaN counts as larger than an infinity, and both show.
template <class D>
class LargestMagnitude {
 public:
  HWY_INLINE explicit LargestMagnitude(D) : largest_(hn::Zero(kInts)) {}
  HWY_INLINE void see(hn::Vec<D> values) { largest_ = hn::Max(largest_, hn::BitCast(kInts, hn::Abs(values))); }
  HWY_INLINE std::int32_t bits() const { return hn::GetLane(hn::MaxOfLanes(kInts, largest_)); }
  HWY_INLINE bool non_finite() const { return bits() >= kInfinityBits; }

 private:
  static constexpr hn::RebindToSigned<D> kInts{};
  hn::Vec<hn::RebindToSigned<D>> largest_;
};

/// Appends the lanes whose magnitude reaches a threshold.
template <class D>
class Appender {
 public:
  HWY_INLINE Appender(D d, float threshold, std::uint32_t* indices, float* values)
      : threshold_(hn::Set(d, threshold)), iota_(hn::Iota(kIndices, 0)), indices_(indices), values_(values) {}

  HWY_INLINE auto hits(hn::Vec<D> acc) const { return hn::Ge(hn::Abs(acc), threshold_); }
  /// Writes all lanes: later entries overwrite those behind the hits, and there is room for as many as were seen.
  template <class Mask>
  HWY_INLINE void append(D d, Mask mask, hn::Vec<D> acc, std::size_t i) {
    const auto indices = hn::Add(iota_, hn::Set(kIndices, static_cast<std::uint32_t>(i)));
    hn::StoreU(hn::Compress(indices, hn::RebindMask(kIndices, mask)), kIndices, indices_ + count_);
    hn::StoreU(hn::Compress(acc, mask), d, values_ + count_);
    count_ += hn::CountTrue(d, mask);
  }
  HWY_INLINE std::size_t count() const { return count_; }

 private:
  static constexpr hn::RebindToUnsigned<D> kIndices{};
  hn::Vec<D> threshold_;
  hn::Vec<hn::RebindToUnsigned<D>> iota_;
  std::uint32_t* indices_;
  float* values_;
  std::size_t count_ = 0;
};

/// Accumulates whole vectors from *position on, four at a time.
template <AccumulateKind kKind, class D>
HWY_INLINE ChunkOutcome accumulate_lanes(D d, const AccumulateJob& job, std::size_t* position, std::size_t end) {
  const std::size_t lanes = hn::Lanes(d);
  const bool prefetching = is_prefetching();
  LargestMagnitude<D> check(d);
  std::size_t i = *position;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    if (prefetching) prefetch<kKind>(job, i, 4 * lanes);
    check.see(accumulate<kKind, true>(d, job, i));
    check.see(accumulate<kKind, true>(d, job, i + lanes));
    check.see(accumulate<kKind, true>(d, job, i + 2 * lanes));
    check.see(accumulate<kKind, true>(d, job, i + 3 * lanes));
  }
  for (; i + lanes <= end; i += lanes) check.see(accumulate<kKind, true>(d, job, i));
  *position = i;
  return {check.non_finite(), 0};
}

/// Returns the address of acc after accumulation.
template <AccumulateKind kKind>
HWY_INLINE const float* accumulated(const AccumulateJob& job) {
  return kKind == AccumulateKind::kExamine ? job.gradient : job.acc;
}

/// Selects block by block of vectors. Those with hits are noted without a branch, and looked at again in the
/// first-level cache. A branch would be mispredicted at every sixth vector with one hit in a hundred.
template <AccumulateKind kKind, class D>
HWY_INLINE ChunkOutcome accumulate_select_lanes(D d, const AccumulateJob& job, std::size_t* position, std::size_t end,
                                                float threshold, std::uint32_t* indices, float* values) {
  constexpr std::size_t kUnroll = 4, kBlock = 64;
  const std::size_t lanes = hn::Lanes(d);
  const bool prefetching = is_prefetching();
  LargestMagnitude<D> check(d);
  Appender<D> appender(d, threshold, indices, values);
  std::size_t noted[kBlock];
  std::size_t count = 0;
  const auto accumulate_and_note = [&](std::size_t i) HWY_ATTR {
    const auto acc = accumulate<kKind, true>(d, job, i);
    check.see(acc);
    noted[count] = i;
    count += hn::AllFalse(d, appender.hits(acc)) ? 0 : 1;
  };
  const auto append_noted = [&]() HWY_ATTR {
    for (std::size_t vector = 0; vector < count; ++vector) {
      const auto acc = hn::LoadU(d, accumulated<kKind>(job) + noted[vector]);
      appender.append(d, appender.hits(acc), acc, noted[vector]);
    }
    count = 0;
  };
  std::size_t i = *position;
  while (i + kUnroll * lanes <= end) {
    const std::size_t vectors = std::min(kBlock, (end - i) / lanes / kUnroll * kUnroll);
    for (const std::size_t block_end = i + vectors * lanes; i < block_end; i += kUnroll * lanes) {
      if (prefetching) prefetch<kKind>(job, i, kUnroll * lanes);
      accumulate_and_note(i);
      accumulate_and_note(i + lanes);
      accumulate_and_note(i + 2 * lanes);
      accumulate_and_note(i + 3 * lanes);
    }
    append_noted();
  }
  for (; i + lanes <= end; i += lanes) accumulate_and_note(i);
  append_noted();
  *position = i;
  return {check.non_finite(), appender.count()};
}

template <AccumulateKind kKind>
ChunkOutcome accumulate_kind(const AccumulateJob job, std::size_t begin, std::size_t end) {
  std::size_t position = begin;
  const ChunkOutcome whole = accumulate_lanes<kKind>(hn::ScalableTag<float>(), job, &position, end);
  const ChunkOutcome rest = accumulate_lanes<kKind>(hn::CappedTag<float, 1>(), job, &position, end);
  return {whole.non_finite || rest.non_finite, 0};
}

template <AccumulateKind kKind>
ChunkOutcome accumulate_select_kind(const AccumulateJob job, std::size_t begin, std::size_t end, float threshold,
                                    std::uint32_t* indices, float* values) {
  // The smallest positive number stands for 0: it leaves out the zeros and nothing else.
  const float bound =
      threshold < std::numeric_limits<float>::denorm_min() ? std::numeric_limits<float>::denorm_min() : threshold;
  std::size_t position = begin;
  const ChunkOutcome whole =
      accumulate_select_lanes<kKind>(hn::ScalableTag<float>(), job, &position, end, bound, indices, values);
  const ChunkOutcome rest = accumulate_select_lanes<kKind>(hn::CappedTag<float, 1>(), job, &position, end, bound,
                                                           indices + whole.selected, values + whole.selected);
  return {whole.non_finite || rest.non_finite, whole.selected + rest.selected};
}

template <AccumulateKind kKind>
void sample_kind(const AccumulateJob job, std::size_t begin, std::size_t end, float* magnitudes) {
  for_each_element(end - begin, [&](auto d, std::size_t i) HWY_ATTR {
    const auto acc = accumulate<kKind, false>(d, job, begin + i);
    hn::StoreU(hn::IfThenElseZero(hn::Eq(acc, acc), hn::Abs(acc)), d, magnitudes + i);
  });
}

template <AccumulateKind kKind>
Moments moments_kind(const AccumulateJob job, std::size_t begin, std::size_t end) {
  const PartialSums::Tag d;
  const hn::Rebind<float, PartialSums::Tag> df;
  const bool prefetching = is_prefetching();
  PartialSums magnitudes, squares, values;
  LargestMagnitude<decltype(df)> largest(df);
  std::size_t i = begin;
  for (; i + kSums <= end; i += kSums) {
    if (prefetching) prefetch<kKind>(job, i, kSums);
    for (std::size_t vector = 0; vector < PartialSums::kVectors; ++vector) {
      const auto acc = accumulate<kKind, true>(df, job, i + vector * PartialSums::kLanes);
      largest.see(acc);
      const auto wide = hn::PromoteTo(d, acc);
      magnitudes.add(vector, hn::Abs(wide));
      squares.add_squares_of_floats(vector, wide);
      values.add(vector, wide);
    }
  }
  double sums[3][kSums];
  magnitudes.store(sums[0]);
  squares.store(sums[1]);
  values.store(sums[2]);
  const hn::CappedTag<float, 1> one;
  LargestMagnitude<decltype(one)> largest_of_rest(one);
  for (std::size_t place = 0; i < end; ++i, ++place) {
    const auto acc = accumulate<kKind, true>(one, job, i);
    largest_of_rest.see(acc);
    const double wide = hn::GetLane(acc);
    sums[0][place] += wide < 0 ? -wide : wide;
    sums[1][place] += wide * wide;
    sums[2][place] += wide;
  }
  Moments moments{.largest = std::bit_cast<float>(HWY_MAX(largest.bits(), largest_of_rest.bits()))};
  for (std::size_t place = 0; place < kSums; ++place) {
    moments.sum += sums[0][place];
    moments.sum_squares += sums[1][place];
    moments.signed_sum += sums[2][place];
  }
  return moments;
}

/// Keeps elements [begin, end) of an array, past the caches: nobody reads them soon.
void keep_array(const float* array, std::size_t begin, std::size_t end, float* kept) {
  if (kept == nullptr) return;
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = begin;
  const auto is_aligned = [&] { return reinterpret_cast<std::uintptr_t>(kept + i) % (lanes * sizeof(float)) == 0; };
  for (; i < end && !is_aligned(); ++i) kept[i] = array[i];
  for (; i + lanes <= end; i += lanes) hn::Stream(hn::LoadU(d, array + i), d, kept + i);
  for (; i < end; ++i) kept[i] = array[i];
}

/// Keeps what the accumulation of [begin, end) will overwrite, if the job wants it. The accumulation then finds it in
/// the caches.
void keep(const AccumulateJob& job, std::size_t begin, std::size_t end) {
  if (job.acc_before == nullptr && job.state_before == nullptr) return;
  keep_array(job.acc, begin, end, job.acc_before);
  keep_array(job.state, begin, end, job.state_before);
  hwy::FlushStream();
}

#ifndef DRAGONN_CALL_KIND
// Calls the instance of the job's kind; one per AccumulateKind, in its order.
#define DRAGONN_CALL_KIND(function, job, ...)                                                                         \
  constexpr decltype(&function<AccumulateKind::kExamine>) kTable[] = {function<AccumulateKind::kExamine>,             \
                                                                      function<AccumulateKind::kScale>,               \
                                                                      function<AccumulateKind::kResidual>,            \
                                                                      function<AccumulateKind::kHeavyBall>,           \
                                                                      function<AccumulateKind::kNesterov>,            \
                                                                      function<AccumulateKind::kFiltered>,            \
                                                                      function<AccumulateKind::kFilteredDifference>,  \
                                                                      function<AccumulateKind::kDifference>,          \
                                                                      function<AccumulateKind::kMomentumDifference>}; \
  return kTable[static_cast<std::size_t>((job).kind)](job, __VA_ARGS__)
#endif

/// Accumulates elements [begin, end).
ChunkOutcome AccumulateChunk(const AccumulateJob& job, std::size_t begin, std::size_t end) {
  keep(job, begin, end);
  DRAGONN_CALL_KIND(accumulate_kind, job, begin, end);
}

ChunkOutcome AccumulateSelectChunk(const AccumulateJob& job, std::size_t begin, std::size_t end, float threshold,
                                   std::uint32_t* indices, float* values) {
  keep(job, begin, end);
  DRAGONN_CALL_KIND(accumulate_select_kind, job, begin, end, threshold, indices, values);
}

/// Samples acc: magnitudes[i - begin] = |acc_i| as it will be after the pass, 0 for a NaN. Stores nothing else.
void SampleChunk(const AccumulateJob& job, std::size_t begin, std::size_t end, float* magnitudes) {
  DRAGONN_CALL_KIND(sample_kind, job, begin, end, magnitudes);
}

/// Accumulates elements [begin, end) and returns the moments of acc, with the bits that PartialSums promises.
Moments MomentsChunk(const AccumulateJob& job, std::size_t begin, std::size_t end) {
  keep(job, begin, end);
  DRAGONN_CALL_KIND(moments_kind, job, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels::detail {

HWY_EXPORT(AccumulateChunk);
HWY_EXPORT(AccumulateSelectChunk);
HWY_EXPORT(SampleChunk);
HWY_EXPORT(MomentsChunk);

ChunkOutcome accumulate_select_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end, float threshold,
                                     std::uint32_t* indices, float* values) {
  return HWY_DYNAMIC_DISPATCH(AccumulateSelectChunk)(job, begin, end, threshold, indices, values);
}

namespace {

/// The fewest elements of a piece that are worth a thread's wake-up.
constexpr std::size_t kPieceElements = 32768;

using Outcomes = std::array<ChunkOutcome, kMaxPieces>;

bool any_non_finite(const Outcomes& outcomes) {
  return std::ranges::any_of(outcomes, &ChunkOutcome::non_finite);
}

/// Selects from one piece; elements outside `wanted` are only accumulated. Hits go to the places of its own elements.
ChunkOutcome select_piece(const AccumulateJob& job, Range piece, Range wanted, float threshold,
                          SparseVector& selected) {
  const std::size_t first = std::clamp(wanted.begin, piece.begin, piece.end);
  const std::size_t last = std::clamp(wanted.end, first, piece.end);
  const bool before = HWY_DYNAMIC_DISPATCH(AccumulateChunk)(job, piece.begin, first).non_finite;
  const bool after = HWY_DYNAMIC_DISPATCH(AccumulateChunk)(job, last, piece.end).non_finite;
  if (first == last) return {before || after, 0};
  const std::size_t place = first - wanted.begin;
  const ChunkOutcome inside = accumulate_select_chunk(job, first, last, threshold, selected.indices.data() + place,
                                                      selected.values.data() + place);
  return {before || after || inside.non_finite, inside.selected};
}

}  // namespace

void use_small_pages(void* data, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_NOHUGEPAGE);
}

void join_runs(std::span<const HitRun> runs, SparseVector& selected) {
  DRAGONN_ASSERT(runs.size() <= kMaxPieces);
  std::array<std::size_t, kMaxPieces> places;
  std::size_t total = 0;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    places[run] = total;
    total += runs[run].count;
  }
  const auto move = [&](std::size_t run) {
    const auto [begin, count] = runs[run];
    if (count == 0 || begin == places[run]) return;
    std::memmove(selected.indices.data() + places[run], selected.indices.data() + begin, count * sizeof(std::uint32_t));
    std::memmove(selected.values.data() + places[run], selected.values.data() + begin, count * sizeof(float));
  };
  // Runs that lie where others go are moved in order, so that none is overwritten. All others lie behind these places.
  std::size_t run = 0;
  while (run < runs.size() && runs[run].begin < total) move(run++);
  if (total < kPieceElements) {
    while (run < runs.size()) move(run++);
  } else {
    const std::size_t ahead = run;
    for_each_chunk({runs.size() - ahead, 1}, [&](std::size_t behind) { move(ahead + behind); });
  }
  selected.truncate(total);
}

bool sweep(const AccumulateJob& job, std::size_t numel) {
  count_swept(numel);
  const Chunks pieces(numel, kPieceElements, kLineElements);
  Outcomes outcomes{};
  for_each_chunk(pieces, [&](std::size_t piece) {
    outcomes[piece] = HWY_DYNAMIC_DISPATCH(AccumulateChunk)(job, pieces.begin(piece), pieces.end(piece));
  });
  return any_non_finite(outcomes);
}

bool sweep_moments(const AccumulateJob& job, std::size_t numel, Moments& moments) {
  count_swept(numel);
  const Chunks pieces(numel, kPieceElements, kLineElements);
  std::array<Moments, kMaxPieces> parts;
  for_each_chunk(pieces, [&](std::size_t piece) {
    parts[piece] = HWY_DYNAMIC_DISPATCH(MomentsChunk)(job, pieces.begin(piece), pieces.end(piece));
  });
  moments = {};
  std::int32_t largest = 0;
  for (const Moments& part : std::span(parts).first(pieces.count())) {
    moments.sum += part.sum;
    moments.sum_squares += part.sum_squares;
    moments.signed_sum += part.signed_sum;
    // The comparison is of bits, so that a NaN stays.
    largest = std::max(largest, std::bit_cast<std::int32_t>(part.largest));
  }
  moments.largest = std::bit_cast<float>(largest);
  return !std::isfinite(moments.largest);
}

bool sweep_select(const AccumulateJob& job, Range range, Range wanted, float threshold, SparseVector& selected) {
  selected.resize_discard(wanted.end - wanted.begin);
  count_swept(range.end - range.begin);
  const Chunks pieces(range.end - range.begin, kPieceElements, kLineElements);
  Outcomes outcomes{};
  for_each_chunk(pieces, [&](std::size_t piece) {
    const Range elements{range.begin + pieces.begin(piece), range.begin + pieces.end(piece)};
    outcomes[piece] = select_piece(job, elements, wanted, threshold, selected);
  });
  std::array<HitRun, kMaxPieces> runs;
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    const std::size_t first = std::max(range.begin + pieces.begin(piece), wanted.begin);
    runs[piece] = {first - wanted.begin, outcomes[piece].selected};
  }
  join_runs(std::span(runs).first(pieces.count()), selected);
  return any_non_finite(outcomes);
}

namespace {

/// Prefetches a line of all that a sample reads.
void prefetch_line(const AccumulateJob& job, std::size_t element) {
  const float* const arrays[] = {job.gradient, job.acc, job.state, job.estimate};
  for (const float* const array : arrays)
    if (array != nullptr) hwy::Prefetch(array + element);
}

}  // namespace

float sample_job(const AccumulateJob& job, const SamplePlan& plan, std::size_t numel, SampleScratch& scratch) {
  scratch.magnitudes.resize_discard(sample_size(numel, plan));
  count_swept(scratch.magnitudes.size());
  float* const magnitudes = scratch.magnitudes.data();
  const Chunks pieces(sample_strata(numel, plan.stride), kPieceElements / kLineElements);
  constexpr std::size_t kAhead = 16;  // no prefetcher of hardware foresees a drawn line
  for_each_chunk(pieces, [&](std::size_t piece) {
    const std::size_t end = pieces.end(piece);
    for (std::size_t stratum = pieces.begin(piece); stratum < end; ++stratum) {
      if (stratum + kAhead < end) prefetch_line(job, sampled_line(numel, plan, stratum + kAhead));
      const std::size_t begin = sampled_line(numel, plan, stratum);
      HWY_DYNAMIC_DISPATCH(SampleChunk)
      (job, begin, std::min(numel, begin + kLineElements), magnitudes + stratum * kLineElements);
    }
  });
  return kth_largest_magnitude(scratch.magnitudes.view(), plan.rank, scratch.ranking);
}

}  // namespace dragonn::kernels::detail
#endif  // HWY_ONCE

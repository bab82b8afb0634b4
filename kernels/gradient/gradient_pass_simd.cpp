// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/gradient_pass_simd.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <bit>
#include <limits>

#include <hwy/highway.h>

#include "kernels/gradient/gradient_pass-inl.h"
#include "kernels/gradient/gradient_pass_simd.h"
#include "kernels/partial_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Appends the lanes whose magnitude reaches a threshold.
template <class D>
class Appender {
 public:
  HWY_INLINE Appender(D d, float threshold, std::uint32_t* indices, float* values)
      : threshold_(hn::Set(d, threshold)), iota_(hn::Iota(kIndices, 0)), indices_(indices), values_(values) {}

  HWY_INLINE auto hits(hn::Vec<D> acc) const { return hn::Ge(hn::Abs(acc), threshold_); }
  /// Writes all lanes, those behind the hits too: later entries overwrite them. There is room for the lanes because no
  /// more entries were written than elements seen.
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
  LargestMagnitude<D> check(d);
  std::size_t i = *position;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    prefetch<kKind>(job, i, 4 * lanes);
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

/// Selects block by block of vectors. Which vectors have hits is noted without a branch, and only these are looked at
/// again, in the first-level cache. With a branch instead, at one hit in a hundred, every sixth vector would be a
/// misprediction, and the loads behind it would wait.
template <AccumulateKind kKind, class D>
HWY_INLINE ChunkOutcome accumulate_select_lanes(D d, const AccumulateJob& job, std::size_t* position, std::size_t end,
                                                float threshold, std::uint32_t* indices, float* values) {
  constexpr std::size_t kUnroll = 4, kBlock = 64;
  const std::size_t lanes = hn::Lanes(d);
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
      prefetch<kKind>(job, i, kUnroll * lanes);
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
  PartialSums magnitudes, squares, values;
  LargestMagnitude<decltype(df)> largest(df);
  std::size_t i = begin;
  for (; i + kSums <= end; i += kSums) {
    prefetch<kKind>(job, i, kSums);
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

ChunkOutcome AccumulateChunk(const AccumulateJob& job, std::size_t begin, std::size_t end) {
  constexpr decltype(&accumulate_kind<AccumulateKind::kExamine>) kTable[] = DRAGONN_KIND_TABLE(accumulate_kind);
  return kTable[static_cast<std::size_t>(job.kind)](job, begin, end);
}

ChunkOutcome AccumulateSelectChunk(const AccumulateJob& job, std::size_t begin, std::size_t end, float threshold,
                                   std::uint32_t* indices, float* values) {
  constexpr decltype(&accumulate_select_kind<AccumulateKind::kExamine>) kTable[] =
      DRAGONN_KIND_TABLE(accumulate_select_kind);
  return kTable[static_cast<std::size_t>(job.kind)](job, begin, end, threshold, indices, values);
}

void SampleChunk(const AccumulateJob& job, std::size_t begin, std::size_t end, float* magnitudes) {
  constexpr decltype(&sample_kind<AccumulateKind::kExamine>) kTable[] = DRAGONN_KIND_TABLE(sample_kind);
  kTable[static_cast<std::size_t>(job.kind)](job, begin, end, magnitudes);
}

Moments MomentsChunk(const AccumulateJob& job, std::size_t begin, std::size_t end) {
  constexpr decltype(&moments_kind<AccumulateKind::kExamine>) kTable[] = DRAGONN_KIND_TABLE(moments_kind);
  return kTable[static_cast<std::size_t>(job.kind)](job, begin, end);
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

ChunkOutcome accumulate_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end) {
  return HWY_DYNAMIC_DISPATCH(AccumulateChunk)(job, begin, end);
}

ChunkOutcome accumulate_select_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end, float threshold,
                                     std::uint32_t* indices, float* values) {
  return HWY_DYNAMIC_DISPATCH(AccumulateSelectChunk)(job, begin, end, threshold, indices, values);
}

void sample_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end, float* magnitudes) {
  HWY_DYNAMIC_DISPATCH(SampleChunk)(job, begin, end, magnitudes);
}

Moments accumulate_moments_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end) {
  return HWY_DYNAMIC_DISPATCH(MomentsChunk)(job, begin, end);
}

}  // namespace dragonn::kernels::detail
#endif  // HWY_ONCE

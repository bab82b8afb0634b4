// SPDX-License-Identifier: MIT
#include "kernels/gradient_pass_sweep.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "kernels/gradient_pass_chunks.h"
#include "kernels/sweep_count.h"

namespace dragonn::kernels::detail {
namespace {

/// Below this a piece is not worth a thread's wake-up.
constexpr std::size_t kPieceElements = 32768;

using Outcomes = std::array<ChunkOutcome, kMaxChunks>;

bool any_non_finite(const Outcomes& outcomes) {
  return std::any_of(outcomes.begin(), outcomes.end(), [](const ChunkOutcome& outcome) { return outcome.non_finite; });
}

/// One piece: its elements outside `wanted` are only accumulated. Hits go to the places of the piece's own elements, so
/// that pieces need not know each other's counts.
ChunkOutcome select_piece(const AccumulateJob& job, Range piece, Range wanted, float threshold,
                          SparseVector& selected) {
  const std::size_t first = std::clamp(wanted.begin, piece.begin, piece.end);
  const std::size_t last = std::clamp(wanted.end, first, piece.end);
  const bool before = accumulate_chunk(job, piece.begin, first).non_finite;
  const bool after = accumulate_chunk(job, last, piece.end).non_finite;
  if (first == last) return {before || after, 0};
  const std::size_t place = first - wanted.begin;
  const ChunkOutcome inside = accumulate_select_chunk(job, first, last, threshold, selected.indices.data() + place,
                                                      selected.values.data() + place);
  return {before || after || inside.non_finite, inside.selected};
}

}  // namespace

void move_hits(SparseVector& selected, std::size_t from, std::size_t to, std::size_t hits) {
  std::memmove(selected.indices.data() + to, selected.indices.data() + from, hits * sizeof(std::uint32_t));
  std::memmove(selected.values.data() + to, selected.values.data() + from, hits * sizeof(float));
}

bool sweep(const AccumulateJob& job, Range range) {
  count_swept(range.end - range.begin);
  const Chunks pieces(range.end - range.begin, kPieceElements, kLineElements);
  Outcomes outcomes{};
  for_each_chunk(pieces, [&](std::size_t piece) {
    outcomes[piece] = accumulate_chunk(job, range.begin + pieces.begin(piece), range.begin + pieces.end(piece));
  });
  return any_non_finite(outcomes);
}

bool sweep_moments(const AccumulateJob& job, Range range, Moments& moments) {
  count_swept(range.end - range.begin);
  const Chunks pieces(range.end - range.begin, kPieceElements, kLineElements);
  std::array<Moments, kMaxChunks> parts;
  for_each_chunk(pieces, [&](std::size_t piece) {
    parts[piece] = accumulate_moments_chunk(job, range.begin + pieces.begin(piece), range.begin + pieces.end(piece));
  });
  moments = {};
  std::int32_t largest = 0;
  for (const Moments& part : std::span(parts).first(pieces.count())) {
    moments.sum += part.sum;
    moments.sum_squares += part.sum_squares;
    moments.signed_sum += part.signed_sum;
    // As bits, so that a NaN stays.
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
  std::size_t count = 0;
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    const std::size_t hits = outcomes[piece].selected;
    if (hits == 0) continue;
    const std::size_t place = std::max(range.begin + pieces.begin(piece), wanted.begin) - wanted.begin;
    if (place != count) move_hits(selected, place, count, hits);
    count += hits;
  }
  selected.truncate(count);
  return any_non_finite(outcomes);
}

float sample_job(const AccumulateJob& job, const SamplePlan& plan, std::size_t numel, SampleScratch& scratch) {
  scratch.magnitudes.resize_discard(sample_size(numel, plan));
  count_swept(scratch.magnitudes.size());
  float* const magnitudes = scratch.magnitudes.data();
  const Chunks pieces(sample_strata(numel, plan.stride), kPieceElements / kLineElements);
  for_each_chunk(pieces, [&](std::size_t piece) {
    for (std::size_t stratum = pieces.begin(piece); stratum < pieces.end(piece); ++stratum) {
      const std::size_t begin = sampled_line(numel, plan, stratum);
      sample_chunk(job, begin, std::min(numel, begin + kLineElements), magnitudes + stratum * kLineElements);
    }
  });
  return kth_largest_magnitude(scratch.magnitudes.view(), plan.rank, scratch.ranking);
}

}  // namespace dragonn::kernels::detail

// SPDX-License-Identifier: MIT
#include "kernels/gradient/gradient_pass_sweep.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "kernels/gradient/gradient_pass.h"
#include "kernels/pieces.h"

namespace dragonn::kernels::detail {
namespace {

/// The fewest elements of a piece that are worth a thread's wake-up.
constexpr std::size_t kPieceElements = 32768;

using Outcomes = std::array<ChunkOutcome, kMaxPieces>;

bool any_non_finite(const Outcomes& outcomes) {
  return std::any_of(outcomes.begin(), outcomes.end(), [](const ChunkOutcome& outcome) { return outcome.non_finite; });
}

/// Selects from one piece. Elements outside `wanted` are only accumulated. Hits go to the places of the piece's own
/// elements, so that pieces need not know each other's counts.
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
  // Runs that lie where others go are moved one after the other, first to last, so that none is overwritten. All others
  // lie behind the joined entries and are out of each other's way.
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
  std::array<Moments, kMaxPieces> parts;
  for_each_chunk(pieces, [&](std::size_t piece) {
    parts[piece] = accumulate_moments_chunk(job, range.begin + pieces.begin(piece), range.begin + pieces.end(piece));
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

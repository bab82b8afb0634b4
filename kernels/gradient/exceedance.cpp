// SPDX-License-Identifier: MIT
#include "kernels/gradient/exceedance.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/chunks.h"
#include "kernels/gradient/exceedance_simd.h"
#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/gradient/sweep_count.h"
#include "kernels/same_device.h"

namespace dragonn::kernels {
namespace {

constexpr std::size_t kPieceElements = 32768;
/// The elements of a block. At 32 KiB the second pass over a block finds it in the first-level cache.
constexpr std::size_t kBlockElements = 8192;

/// The result of one piece.
struct Piece {
  Exceedances above;
  std::size_t selected = 0;
};

/// Examines a piece. Entries that reach `least` go to the places of the piece's own elements.
Piece examine_piece(std::span<const float> values, std::size_t begin, std::size_t end, float threshold, float least,
                    SparseVector* selected) {
  const detail::AccumulateJob job{.gradient = values.data()};
  const bool exceedable = std::isfinite(threshold);
  Piece piece;
  for (std::size_t i = begin; i < end; i += kBlockElements) {
    const std::size_t block_end = std::min(end, i + kBlockElements);
    if (exceedable) detail::add_exceedances_chunk(values.data(), i, block_end, threshold, &piece.above);
    if (selected == nullptr) continue;
    const std::size_t place = begin + piece.selected;
    piece.selected += detail::accumulate_select_chunk(job, i, block_end, least, selected->indices.data() + place,
                                                      selected->values.data() + place)
                          .selected;
  }
  return piece;
}

Exceedances examine_pieces(std::span<const float> values, float threshold, float least, SparseVector* selected) {
  if (selected != nullptr) selected->resize_discard(values.size());
  const detail::Chunks pieces(values.size(), kPieceElements, kLineElements);
  std::array<Piece, detail::kMaxChunks> found;
  for_each_chunk(pieces, [&](std::size_t piece) {
    found[piece] = examine_piece(values, pieces.begin(piece), pieces.end(piece), threshold, least, selected);
  });
  Exceedances total;
  std::array<detail::HitRun, detail::kMaxChunks> runs;
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    const auto& [above, hits] = found[piece];
    total.count += above.count;
    total.sum += above.sum;
    total.sum_squares += above.sum_squares;
    total.smallest = std::min(total.smallest, above.smallest);
    runs[piece] = {pieces.begin(piece), hits};
  }
  if (selected != nullptr) detail::join_runs(std::span(runs).first(pieces.count()), *selected);
  return total;
}

Exceedances exceedances_cpu(View<const float> values, float threshold) {
  return examine_pieces(values.host(), threshold, 0, nullptr);
}

Exceedances exceedances_and_entries_cpu(View<const float> values, float threshold, float least,
                                        SparseVector& selected) {
  return examine_pieces(values.host(), threshold, least, &selected);
}

double logs_cpu(View<const float> values, double scale, double offset) {
  const float* const data = values.data();
  const detail::Chunks pieces(values.size(), kPieceElements);
  std::array<double, detail::kMaxChunks> sums{};
  for_each_chunk(pieces, [&](std::size_t piece) {
    sums[piece] = detail::sum_magnitude_logs_chunk(data, pieces.begin(piece), pieces.end(piece), scale, offset);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

ExceedancesTable& exceedances_table() {
  static ExceedancesTable table("exceedances", exceedances_cpu);
  return table;
}
ExceedancesAndEntriesTable& exceedances_and_entries_table() {
  static ExceedancesAndEntriesTable table("exceedances_and_entries", exceedances_and_entries_cpu);
  return table;
}
MagnitudeLogsTable& sum_magnitude_logs_table() {
  static MagnitudeLogsTable table("sum_magnitude_logs", logs_cpu);
  return table;
}

Exceedances exceedances(View<const float> values, float threshold) {
  count_swept(values.size());
  return exceedances_table().at(values.device())(values, threshold);
}

Exceedances exceedances_and_entries(View<const float> values, float threshold, float least, SparseVector& selected) {
  check_same_device("exceedances_and_entries", values.device(), selected.device());
  count_swept(values.size());
  return exceedances_and_entries_table().at(values.device())(values, threshold, least, selected);
}

double sum_magnitude_logs(View<const float> values, double scale, double offset) {
  count_swept(values.size());
  return sum_magnitude_logs_table().at(values.device())(values, scale, offset);
}

}  // namespace dragonn::kernels

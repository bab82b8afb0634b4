// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/exceedance.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include <hwy/highway.h>

#include "kernels/gradient/exceedance.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/partial_sums-inl.h"
#include "kernels/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = PartialSums::Tag;
constexpr std::size_t kLanes = PartialSums::kLanes;
constexpr std::size_t kVectors = PartialSums::kVectors;

void AddExceedancesChunk(const float* values, std::size_t begin, std::size_t end, float threshold, Exceedances* total) {
  const Wide d;
  const hn::Rebind<float, Wide> df;
  const auto bound = hn::Set(df, threshold);
  const auto wide_bound = hn::Set(d, static_cast<double>(threshold));
  PartialSums excesses, squares;
  auto smallest = hn::Set(df, total->smallest);
  std::size_t count = 0, i = begin;
  for (; i + kSums <= end; i += kSums) {
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      const auto magnitude = hn::Abs(hn::LoadU(df, values + i + vector * kLanes));
      const auto hits = hn::Gt(magnitude, bound);
      count += hn::CountTrue(df, hits);
      smallest = hn::IfThenElse(hits, hn::Min(smallest, magnitude), smallest);
      // Values that do not exceed the threshold add 0.
      const auto excess = hn::Sub(hn::PromoteTo(d, hn::IfThenElse(hits, magnitude, bound)), wide_bound);
      excesses.add(vector, excess);
      squares.add(vector, hn::Mul(excess, excess));
    }
  }
  double sums[2][kSums];
  excesses.store(sums[0]);
  squares.store(sums[1]);
  total->count += count;
  total->smallest = hn::GetLane(hn::MinOfLanes(df, smallest));
  for (std::size_t place = 0; i < end; ++i, ++place) {
    const float magnitude = values[i] < 0 ? -values[i] : values[i];
    if (!(magnitude > threshold)) continue;
    const double excess = static_cast<double>(magnitude) - static_cast<double>(threshold);
    sums[0][place] += excess;
    sums[1][place] += excess * excess;
    if (magnitude < total->smallest) total->smallest = magnitude;
    ++total->count;
  }
  for (std::size_t place = 0; place < kSums; ++place) {
    total->sum += sums[0][place];
    total->sum_squares += sums[1][place];
  }
}

/// Partial products with the places of PartialSums, as mantissa * 2^exponent, so that one logarithm per product
/// suffices.
class PartialProducts {
 public:
  /// The number of factors in [1e-18, 2] that take a mantissa in [1, 2) neither to 0 nor to infinity.
  static constexpr std::size_t kMaxFactors = 16;

  HWY_INLINE PartialProducts() {
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      mantissas_[vector] = hn::Set(Wide(), 1.0);
      exponents_[vector] = hn::Zero(kInts);
    }
  }
  HWY_INLINE void multiply(std::size_t vector, hn::Vec<Wide> factors) {
    mantissas_[vector] = hn::Mul(mantissas_[vector], factors);
  }
  /// Moves the powers of two out of the mantissas, at the latest after kMaxFactors factors each.
  HWY_INLINE void normalize() {
    const auto bias = hn::Set(kInts, kBias);
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      const auto bits = hn::BitCast(kInts, mantissas_[vector]);
      exponents_[vector] = hn::Add(exponents_[vector], hn::Sub(hn::ShiftRight<kFractionBits>(bits), bias));
      const auto fraction = hn::And(bits, hn::Set(kInts, (std::int64_t{1} << kFractionBits) - 1));
      mantissas_[vector] = hn::BitCast(Wide(), hn::Or(fraction, hn::ShiftLeft<kFractionBits>(bias)));
    }
  }
  HWY_INLINE void store(double* mantissas, std::int64_t* exponents) const {
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      hn::StoreU(mantissas_[vector], Wide(), mantissas + vector * kLanes);
      hn::StoreU(exponents_[vector], kInts, exponents + vector * kLanes);
    }
  }

 private:
  static constexpr hn::RebindToSigned<Wide> kInts{};
  static constexpr int kFractionBits = 52;
  static constexpr std::int64_t kBias = 1023;
  hn::Vec<Wide> mantissas_[kVectors];
  hn::Vec<hn::RebindToSigned<Wide>> exponents_[kVectors];
};

double SumMagnitudeLogsChunk(const float* values, std::size_t begin, std::size_t end, double scale, double offset) {
  const Wide d;
  const hn::Rebind<float, Wide> df;
  const auto one = hn::Set(d, 1.0);
  PartialProducts products;
  std::size_t i = begin, factors = 0;
  for (; i + kSums <= end; i += kSums) {
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      const auto magnitude = hn::PromoteTo(d, hn::Abs(hn::LoadU(df, values + i + vector * kLanes)));
      const auto factor = hn::Add(hn::Mul(hn::Set(d, scale), magnitude), hn::Set(d, offset));
      products.multiply(vector, hn::IfThenElse(hn::Eq(factor, factor), factor, one));
    }
    // The bound is one short: the remaining elements add one.
    if (++factors < PartialProducts::kMaxFactors - 1) continue;
    products.normalize();
    factors = 0;
  }
  double mantissas[kSums];
  std::int64_t exponents[kSums];
  products.store(mantissas, exponents);
  for (std::size_t place = 0; i < end; ++i, ++place) {
    const double factor = scale * std::fabs(static_cast<double>(values[i])) + offset;
    if (factor == factor) mantissas[place] *= factor;
  }
  double sum = 0;
  for (std::size_t place = 0; place < kSums; ++place) {
    sum += std::log(mantissas[place]) + std::numbers::ln2 * static_cast<double>(exponents[place]);
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(AddExceedancesChunk);
HWY_EXPORT(SumMagnitudeLogsChunk);
}  // namespace detail

namespace {

constexpr std::size_t kPieceElements = 32768;
/// The elements of a block. At 32 KiB the second pass over a block finds it in the first-level cache.
constexpr std::size_t kBlockElements = 8192;

/// The result of one piece.
struct Piece {
  Exceedances above;
  std::size_t selected = 0;
};

/// Examines a piece. Entries that reach `min` go to the places of the piece's own elements.
Piece examine_piece(std::span<const float> values, std::size_t begin, std::size_t end, float threshold, float min,
                    SparseVector* selected) {
  const detail::AccumulateJob job{.gradient = values.data()};
  const bool exceedable = std::isfinite(threshold);
  Piece piece;
  for (std::size_t i = begin; i < end; i += kBlockElements) {
    const std::size_t block_end = std::min(end, i + kBlockElements);
    if (exceedable)
      HWY_DYNAMIC_DISPATCH(detail::AddExceedancesChunk)(values.data(), i, block_end, threshold, &piece.above);
    if (selected == nullptr) continue;
    const std::size_t place = begin + piece.selected;
    piece.selected += detail::accumulate_select_chunk(job, i, block_end, min, selected->indices.data() + place,
                                                      selected->values.data() + place)
                          .selected;
  }
  return piece;
}

Exceedances examine_pieces(std::span<const float> values, float threshold, float min, SparseVector* selected) {
  if (selected != nullptr) selected->resize_discard(values.size());
  const detail::Chunks pieces(values.size(), kPieceElements, kLineElements);
  std::array<Piece, kMaxPieces> found;
  for_each_chunk(pieces, [&](std::size_t piece) {
    found[piece] = examine_piece(values, pieces.begin(piece), pieces.end(piece), threshold, min, selected);
  });
  Exceedances total;
  std::array<detail::HitRun, kMaxPieces> runs;
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

double logs_cpu(View<const float> values, double scale, double offset) {
  const float* const data = values.data();
  const detail::Chunks pieces(values.size(), kPieceElements);
  std::array<double, kMaxPieces> sums{};
  for_each_chunk(pieces, [&](std::size_t piece) {
    sums[piece] = HWY_DYNAMIC_DISPATCH(detail::SumMagnitudeLogsChunk)(data, pieces.begin(piece), pieces.end(piece),
                                                                      scale, offset);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <class... Rest>
bool counted(View<const float> values, Rest...) {
  count_swept(values.size());
  return true;
}

}  // namespace

constinit decltype(exceedances) exceedances(
    "exceedances", [](auto values, float threshold) { return examine_pieces(values.host(), threshold, 0, nullptr); },
    counted);
constinit decltype(exceedances_and_entries) exceedances_and_entries(
    "exceedances_and_entries",
    [](auto values, float threshold, float min, SparseVector& selected) {
      return examine_pieces(values.host(), threshold, min, &selected);
    },
    counted);
constinit decltype(sum_magnitude_logs) sum_magnitude_logs("sum_magnitude_logs", logs_cpu, counted);

}  // namespace dragonn::kernels
#endif  // HWY_ONCE

// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/batch_norm_simd.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/nn/batch_norm_simd.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(d, c) for consecutive blocks of Lanes(d) channels: whole vectors, then fours, then single channels. Each
/// lane works on one channel, so that the width of the vectors does not change the order of any sum.
template <class Body>
HWY_INLINE void for_each_block(std::size_t channels, const Body& body) {
  const hn::ScalableTag<float> whole;
  const hn::CappedTag<float, 4> four;
  const hn::CappedTag<float, 1> single;
  std::size_t channel = 0;
  for (; channel + hn::Lanes(whole) <= channels; channel += hn::Lanes(whole)) body(whole, channel);
  for (; channel + hn::Lanes(four) <= channels; channel += hn::Lanes(four)) body(four, channel);
  for (; channel < channels; ++channel) body(single, channel);
}

/// Returns the sum of term(row) over the rows, in four interleaved chains that hide the latency of an addition.
template <class D, class Term>
HWY_INLINE hn::Vec<D> sum_rows(D d, std::size_t rows, const Term& term) {
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  std::size_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    sum0 = hn::Add(sum0, term(row));
    sum1 = hn::Add(sum1, term(row + 1));
    sum2 = hn::Add(sum2, term(row + 2));
    sum3 = hn::Add(sum3, term(row + 3));
  }
  for (; row < rows; ++row) sum0 = hn::Add(sum0, term(row));
  return hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
}

/// Fetches a piece in the order of memory. Loops over the rows of one block of channels leave out what lies between,
/// and processors fetch such accesses late.
HWY_INLINE void fetch(const float* data, std::size_t rows, std::size_t channels) {
  constexpr std::size_t kLine = 16;
  if (data == nullptr || channels <= kLine) return;
  for (std::size_t i = 0; i < rows * channels; i += kLine) hwy::Prefetch(data + i);
}

void moments(const MomentsPiece& piece) {
  const std::size_t channels = piece.channels;
  fetch(piece.input, piece.rows, channels);
  for_each_block(channels, [&](auto d, std::size_t channel) HWY_ATTR {
    const float* input = piece.input + channel;
    const auto sum =
        sum_rows(d, piece.rows, [&](std::size_t row) HWY_ATTR { return hn::LoadU(d, input + row * channels); });
    const auto mean = hn::Div(sum, hn::Set(d, static_cast<float>(piece.rows)));
    const auto deviation = sum_rows(d, piece.rows, [&](std::size_t row) HWY_ATTR {
      const auto centered = hn::Sub(hn::LoadU(d, input + row * channels), mean);
      return hn::Mul(centered, centered);
    });
    hn::StoreU(mean, d, piece.mean + channel);
    hn::StoreU(deviation, d, piece.deviation + channel);
  });
}

template <bool kResidual, bool kRelu>
void normalize_as(const NormalizePiece& piece) {
  for (std::size_t row = 0; row < piece.rows; ++row) {
    const std::size_t begin = row * piece.channels;
    for_each_block(piece.channels, [&](auto d, std::size_t channel) HWY_ATTR {
      const std::size_t at = begin + channel;
      const auto centered = hn::Sub(hn::LoadU(d, piece.input + at), hn::LoadU(d, piece.mean + channel));
      auto value = hn::MulAdd(centered, hn::LoadU(d, piece.factor + channel), hn::LoadU(d, piece.shift + channel));
      if constexpr (kResidual) value = hn::Add(value, hn::LoadU(d, piece.residual + at));
      // In this order x86 keeps a NaN. Hiding it here would hide a run that has diverged.
      if constexpr (kRelu) value = hn::Max(hn::Zero(d), value);
      hn::StoreU(value, d, piece.output + at);
    });
  }
}

void normalize(const NormalizePiece& piece) {
  if (piece.residual != nullptr)
    piece.relu ? normalize_as<true, true>(piece) : normalize_as<true, false>(piece);
  else
    piece.relu ? normalize_as<false, true>(piece) : normalize_as<false, false>(piece);
}

/// The values that backward needs of a block of channels, and the gradient behind the ReLU at one row.
template <ReluMask kMask, bool kTwoGradients, class D>
struct Gradient {
  HWY_INLINE Gradient(const BackwardPiece& whole, std::size_t first)
      : piece(whole),
        channel(first),
        mean(hn::LoadU(D(), whole.mean + first)),
        factor(hn::LoadU(D(), whole.factor + first)),
        shift(hn::LoadU(D(), whole.shift + first)) {}

  HWY_INLINE std::size_t at(std::size_t row) const { return row * piece.channels + channel; }
  HWY_INLINE hn::Vec<D> centered(std::size_t row) const { return hn::Sub(hn::LoadU(D(), piece.input + at(row)), mean); }
  HWY_INLINE hn::Vec<D> behind_relu(std::size_t row, hn::Vec<D> centered_input) const {
    const D d;
    auto gradient = hn::LoadU(d, piece.output_gradient + at(row));
    if constexpr (kTwoGradients) gradient = hn::Add(gradient, hn::LoadU(d, piece.other_gradient + at(row)));
    if constexpr (kMask == ReluMask::kNone) return gradient;
    auto output = hn::MulAdd(centered_input, factor, shift);
    if constexpr (kMask == ReluMask::kOutput) output = hn::LoadU(d, piece.output + at(row));
    return hn::IfThenElseZero(hn::Gt(output, hn::Zero(d)), gradient);
  }

  const BackwardPiece& piece;
  std::size_t channel;
  hn::Vec<D> mean, factor, shift;
};

template <ReluMask kMask, bool kTwoGradients, bool kStore>
void reduce_as(const BackwardPiece& piece, float* sum, float* moment, float* masked) {
  fetch(piece.input, piece.rows, piece.channels);
  fetch(piece.output_gradient, piece.rows, piece.channels);
  if constexpr (kTwoGradients) fetch(piece.other_gradient, piece.rows, piece.channels);
  if constexpr (kMask == ReluMask::kOutput) fetch(piece.output, piece.rows, piece.channels);
  for_each_block(piece.channels, [&](auto d, std::size_t channel) HWY_ATTR {
    const Gradient<kMask, kTwoGradients, decltype(d)> gradient(piece, channel);
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), moment0 = hn::Zero(d), moment1 = hn::Zero(d);
    const auto add_row = [&](std::size_t row, auto& row_sum, auto& row_moment) HWY_ATTR {
      const auto centered = gradient.centered(row);
      const auto value = gradient.behind_relu(row, centered);
      row_sum = hn::Add(row_sum, value);
      row_moment = hn::MulAdd(value, centered, row_moment);
      if constexpr (kStore) hn::StoreU(value, d, masked + gradient.at(row));
    };
    std::size_t row = 0;
    for (; row + 2 <= piece.rows; row += 2) {
      add_row(row, sum0, moment0);
      add_row(row + 1, sum1, moment1);
    }
    if (row < piece.rows) add_row(row, sum0, moment0);
    hn::StoreU(hn::Add(sum0, sum1), d, sum + channel);
    hn::StoreU(hn::Add(moment0, moment1), d, moment + channel);
  });
}

template <ReluMask kMask, bool kTwoGradients>
void input_gradient_as(const BackwardPiece& piece, const float* slope, const float* offset, float* input_gradient) {
  for (std::size_t row = 0; row < piece.rows; ++row)
    for_each_block(piece.channels, [&](auto d, std::size_t channel) HWY_ATTR {
      const Gradient<kMask, kTwoGradients, decltype(d)> gradient(piece, channel);
      const auto centered = gradient.centered(row);
      const auto value = gradient.behind_relu(row, centered);
      const auto rest = hn::MulAdd(centered, hn::LoadU(d, slope + channel), hn::LoadU(d, offset + channel));
      hn::StoreU(hn::MulAdd(gradient.factor, value, rest), d, input_gradient + gradient.at(row));
    });
}

template <ReluMask kMask, bool kTwoGradients>
void reduce_stored_or_not(const BackwardPiece& piece, float* sum, float* moment, float* masked) {
  masked != nullptr ? reduce_as<kMask, kTwoGradients, true>(piece, sum, moment, masked)
                    : reduce_as<kMask, kTwoGradients, false>(piece, sum, moment, masked);
}

/// Calls body.operator()<mask, two gradients>() with the properties of `piece`.
template <class Body>
void specialize(const BackwardPiece& piece, const Body& body) {
  const bool two = piece.other_gradient != nullptr;
  switch (piece.mask) {
    case ReluMask::kNone:
      return two ? body.template operator()<ReluMask::kNone, true>()
                 : body.template operator()<ReluMask::kNone, false>();
    case ReluMask::kRecompute:
      return two ? body.template operator()<ReluMask::kRecompute, true>()
                 : body.template operator()<ReluMask::kRecompute, false>();
    case ReluMask::kOutput:
      return two ? body.template operator()<ReluMask::kOutput, true>()
                 : body.template operator()<ReluMask::kOutput, false>();
  }
}

void reduce(const BackwardPiece& piece, float* sum, float* moment, float* masked) {
  specialize(piece,
             [&]<ReluMask kMask, bool kTwo>() { reduce_stored_or_not<kMask, kTwo>(piece, sum, moment, masked); });
}

void input_gradient(const BackwardPiece& piece, const float* slope, const float* offset, float* result) {
  specialize(piece, [&]<ReluMask kMask, bool kTwo>() { input_gradient_as<kMask, kTwo>(piece, slope, offset, result); });
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels::detail {

HWY_EXPORT(moments);
HWY_EXPORT(normalize);
HWY_EXPORT(reduce);
HWY_EXPORT(input_gradient);

void batch_norm_moments(const MomentsPiece& piece) {
  HWY_DYNAMIC_DISPATCH(moments)(piece);
}
void batch_norm_normalize(const NormalizePiece& piece) {
  HWY_DYNAMIC_DISPATCH(normalize)(piece);
}
void batch_norm_reduce(const BackwardPiece& piece, float* sum, float* moment, float* masked) {
  HWY_DYNAMIC_DISPATCH(reduce)(piece, sum, moment, masked);
}
void batch_norm_input_gradient(const BackwardPiece& piece, const float* slope, const float* offset, float* result) {
  HWY_DYNAMIC_DISPATCH(input_gradient)(piece, slope, offset, result);
}

}  // namespace dragonn::kernels::detail
#endif

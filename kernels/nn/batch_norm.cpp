// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/batch_norm.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <cmath>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/nn/normalization.h"
#include "kernels/pieces.h"

#ifndef DRAGONN_BATCH_NORM_PIECES  // once for all instruction sets
#define DRAGONN_BATCH_NORM_PIECES
namespace dragonn::kernels {

/// A piece of [rows, channels] data. Pointers to data point at the piece's first row, the others at channel 0.
struct NormalizePiece {
  const float* input = nullptr;
  const float* residual = nullptr;  ///< null if there is none
  std::size_t rows = 0;
  std::size_t channels = 0;
  const float* mean = nullptr;
  const float* factor = nullptr;  ///< scale / standard deviation
  const float* shift = nullptr;
  bool relu = false;
  float* output = nullptr;
};

/// The source from which backward learns which outputs the ReLU cut off.
enum class ReluMask {
  kNone,       ///< no ReLU
  kRecompute,  ///< from the input, as forward computed it
  kOutput,     ///< from the output
};

struct BackwardPiece {
  const float* input = nullptr;
  const float* output = nullptr;  ///< for ReluMask::kOutput
  const float* output_gradient = nullptr;
  const float* other_gradient = nullptr;  ///< added to output_gradient, or null
  std::size_t rows = 0;
  std::size_t channels = 0;
  ReluMask mask = ReluMask::kNone;
  const float* mean = nullptr;
  const float* factor = nullptr;
  const float* shift = nullptr;
};

}  // namespace dragonn::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels {
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

/// Computes the mean of a piece [rows, channels], and the sum of squared differences from it.
void moments(const float* input, std::size_t rows, std::size_t channels, float* means, float* deviations) {
  fetch(input, rows, channels);
  for_each_block(channels, [&](auto d, std::size_t channel) HWY_ATTR {
    const float* first = input + channel;
    const auto sum = sum_rows(d, rows, [&](std::size_t row) HWY_ATTR { return hn::LoadU(d, first + row * channels); });
    const auto mean = hn::Div(sum, hn::Set(d, static_cast<float>(rows)));
    const auto deviation = sum_rows(d, rows, [&](std::size_t row) HWY_ATTR {
      const auto centered = hn::Sub(hn::LoadU(d, first + row * channels), mean);
      return hn::Mul(centered, centered);
    });
    hn::StoreU(mean, d, means + channel);
    hn::StoreU(deviation, d, deviations + channel);
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

/// Computes y = max(0, (x - mean) * factor + shift + residual).
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

/// Reduces the gradient g behind the ReLU: sum[c] = sum of g, moment[c] = sum of g * (x - mean). Stores g to `masked`
/// unless it is null.
void reduce(const BackwardPiece& piece, float* sum, float* moment, float* masked) {
  specialize(piece, [&]<ReluMask kMask, bool kTwo>() {
    masked != nullptr ? reduce_as<kMask, kTwo, true>(piece, sum, moment, masked)
                      : reduce_as<kMask, kTwo, false>(piece, sum, moment, masked);
  });
}

/// Computes result = factor * g + (x - mean) * slope + offset.
void input_gradient(const BackwardPiece& piece, const float* slope, const float* offset, float* result) {
  specialize(piece, [&]<ReluMask kMask, bool kTwo>() { input_gradient_as<kMask, kTwo>(piece, slope, offset, result); });
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace {

HWY_EXPORT(moments);
HWY_EXPORT(normalize);
HWY_EXPORT(reduce);
HWY_EXPORT(input_gradient);

/// The floats of a piece of rows that fits the first-level cache, so that the two sweeps of the moments read memory
/// once.
constexpr std::size_t kPieceFloats = 8192;

class CpuBatchNorm final : public Plan {
 public:
  CpuBatchNorm(const Device&, const BatchNormSpec& spec)
      : spec_(spec),
        stride_(aligned_floats(spec.channels)),
        pieces_(spec.rows, std::max<std::size_t>(1, kPieceFloats / spec.channels)) {}

  PlanMemory memory() const override {
    const std::size_t partial = 2 * stride_ * pieces_.count();
    return {2 * stride_, partial + stride_, partial + 3 * stride_};
  }

  void forward(const ForwardPass& pass) override {
    float* factor = pass.scratch.data();
    const float* mean = pass.statistics[0].data();
    if (spec_.training) {
      factor = partials(pass.scratch, pieces_.count());
      mean = pass.saved.data();
      compute_moments(pass);
      compute_factor(pass, mean + stride_, factor);
    } else {
      for (std::size_t c = 0; c < spec_.channels; ++c)
        factor[c] = pass.parameters[0].data()[c] * inverse_deviation(pass.statistics[1].data()[c]);
    }
    const float* residual = spec_.residual ? pass.inputs[1].data() : nullptr;
    detail::for_each_chunk(pieces_, [&](std::size_t piece) {
      HWY_DYNAMIC_DISPATCH(normalize)
      ({pass.inputs[0].data() + start(piece), residual == nullptr ? nullptr : residual + start(piece), rows(piece),
        spec_.channels, mean, factor, pass.parameters[1].data(), spec_.relu, pass.output.data() + start(piece)});
    });
  }

  void backward(const BackwardPass& pass) override {
    const float* mean = pass.saved.data();
    float* factor = partials(pass.scratch, pieces_.count());
    float* slope = factor + stride_;
    float* offset = slope + stride_;
    compute_factor(pass, mean + stride_, factor);

    BackwardPiece whole = whole_of(pass, mean, factor);
    float* masked = spec_.residual ? pass.input_gradients[1].data() : nullptr;
    detail::for_each_chunk(pieces_, [&](std::size_t piece) {
      float* sums = partials(pass.scratch, piece);
      HWY_DYNAMIC_DISPATCH(reduce)
      (part(whole, piece), sums, sums + stride_, masked == nullptr ? nullptr : masked + start(piece));
    });
    combine_gradients(pass, mean + stride_, factor, slope, offset);
    if (masked != nullptr) {
      // The first sweep stored the gradient behind the ReLU: nothing is left to add or to mask.
      whole.output_gradient = masked;
      whole.other_gradient = nullptr;
      whole.mask = ReluMask::kNone;
    }
    detail::for_each_chunk(pieces_, [&](std::size_t piece) {
      HWY_DYNAMIC_DISPATCH(input_gradient)
      (part(whole, piece), slope, offset, pass.input_gradients[0].data() + start(piece));
    });
  }

 private:
  /// Returns the partial results of a piece, two rows of channels at the front of the scratch memory.
  float* partials(View<float> scratch, std::size_t piece) const { return scratch.data() + 2 * piece * stride_; }
  std::size_t start(std::size_t piece) const { return pieces_.begin(piece) * spec_.channels; }
  std::size_t rows(std::size_t piece) const { return pieces_.end(piece) - pieces_.begin(piece); }
  float inverse_deviation(float variance) const { return 1.0f / std::sqrt(variance + spec_.epsilon); }

  void compute_factor(const auto& pass, const float* inverse_deviations, float* factor) const {
    for (std::size_t c = 0; c < spec_.channels; ++c) factor[c] = pass.parameters[0].data()[c] * inverse_deviations[c];
  }

  /// Computes the batch's mean and inverse deviation, and updates the running statistics. Combines the pieces' means
  /// and squared deviations (Chan, Golub and LeVeque).
  void compute_moments(const ForwardPass& pass) const {
    detail::for_each_chunk(pieces_, [&](std::size_t piece) {
      float* own = partials(pass.scratch, piece);
      HWY_DYNAMIC_DISPATCH(moments)
      (pass.inputs[0].data() + start(piece), rows(piece), spec_.channels, own, own + stride_);
    });
    float* saved_mean = pass.saved.data();
    const double count = static_cast<double>(spec_.rows);
    const double unbiased = spec_.rows > 1 ? count / (count - 1) : 1.0;
    for (std::size_t c = 0; c < spec_.channels; ++c) {
      double mean = 0;
      for (std::size_t p = 0; p < pieces_.count(); ++p)
        mean += static_cast<double>(rows(p)) * partials(pass.scratch, p)[c];
      mean /= count;
      double deviation = 0;
      for (std::size_t p = 0; p < pieces_.count(); ++p) {
        const float* own = partials(pass.scratch, p);
        const double difference = own[c] - mean;
        deviation += own[stride_ + c] + static_cast<double>(rows(p)) * difference * difference;
      }
      const double variance = deviation / count;
      saved_mean[c] = static_cast<float>(mean);
      saved_mean[stride_ + c] = inverse_deviation(static_cast<float>(variance));
      update_running(pass.statistics[0].data()[c], mean);
      update_running(pass.statistics[1].data()[c], variance * unbiased);
    }
  }

  void update_running(float& running, double batch) const {
    running = static_cast<float>((1.0 - spec_.momentum) * running + spec_.momentum * batch);
  }

  BackwardPiece whole_of(const BackwardPass& pass, const float* mean, const float* factor) const {
    const auto gradients = pass.output_gradients;
    BackwardPiece whole;
    whole.input = pass.inputs[0].data();
    whole.output = pass.output.data();
    whole.output_gradient = gradients[0].data();
    whole.other_gradient = gradients.size() > 1 ? gradients[1].data() : nullptr;
    whole.channels = spec_.channels;
    if (spec_.relu) whole.mask = spec_.residual ? ReluMask::kOutput : ReluMask::kRecompute;
    whole.mean = mean;
    whole.factor = factor;
    whole.shift = pass.parameters[1].data();
    return whole;
  }

  BackwardPiece part(BackwardPiece whole, std::size_t piece) const {
    const std::size_t offset = start(piece);
    whole.input += offset;
    whole.output_gradient += offset;
    if (whole.output != nullptr) whole.output += offset;
    if (whole.other_gradient != nullptr) whole.other_gradient += offset;
    whole.rows = rows(piece);
    return whole;
  }

  /// Computes, with g the gradient behind the ReLU, N rows and s the inverse deviation:
  /// dx = factor * (g - mean(g) - (x - mean) * s^2 * mean(g * (x - mean))).
  void combine_gradients(const BackwardPass& pass, const float* inverse_deviations, const float* factor, float* slope,
                         float* offset) const {
    const double count = static_cast<double>(spec_.rows);
    for (std::size_t c = 0; c < spec_.channels; ++c) {
      double sum = 0, moment = 0;
      for (std::size_t p = 0; p < pieces_.count(); ++p) {
        sum += partials(pass.scratch, p)[c];
        moment += partials(pass.scratch, p)[stride_ + c];
      }
      const double inverse = inverse_deviations[c];
      pass.parameter_gradients[1].data()[c] = static_cast<float>(sum);
      pass.parameter_gradients[0].data()[c] = static_cast<float>(moment * inverse);
      slope[c] = static_cast<float>(-factor[c] * inverse * inverse * moment / count);
      offset[c] = static_cast<float>(-factor[c] * sum / count);
    }
  }

  BatchNormSpec spec_;
  std::size_t stride_;  // floats for one number per channel
  detail::Chunks pieces_;
};

}  // namespace

constinit decltype(make_batch_norm_plan) make_batch_norm_plan("batch_norm",
                                                              construct_plan<CpuBatchNorm, Plan, BatchNormSpec>);

}  // namespace dragonn::kernels
#endif

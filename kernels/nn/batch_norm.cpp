// SPDX-License-Identifier: MIT
#include "kernels/nn/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/nn/batch_norm_simd.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {
namespace {

/// The floats of a piece of rows that fits the first-level cache, so that the two sweeps of the moments read memory
/// once.
constexpr std::size_t kPieceFloats = 8192;

class CpuBatchNorm final : public Plan {
 public:
  CpuBatchNorm(const Device&, const BatchNormSpec& spec)
      : spec_(spec), pieces_(spec.rows, std::max<std::size_t>(1, kPieceFloats / spec.channels)) {}

  PlanMemory memory() const override {
    const std::size_t channels = aligned_floats(spec_.channels);
    const std::size_t partial = 2 * channels * pieces_.count();
    return {2 * channels, partial + channels, partial + 3 * channels};
  }

  void forward(const ForwardPass& pass) override { spec_.training ? forward_train(pass) : forward_evaluate(pass); }

  void backward(const BackwardPass& pass) override {
    const Saved saved(*this, pass.saved);
    Partials partials(*this, pass.scratch);
    float* factor = partials.end();
    float* slope = factor + aligned_floats(spec_.channels);
    float* offset = slope + aligned_floats(spec_.channels);
    for (std::size_t c = 0; c < spec_.channels; ++c)
      factor[c] = pass.parameters[0].data()[c] * saved.inverse_deviation[c];

    detail::BackwardPiece whole = describe(pass, saved.mean, factor);
    float* masked = spec_.residual ? pass.input_gradients[1].data() : nullptr;
    detail::for_each_chunk(pieces_, [&](std::size_t piece) {
      detail::batch_norm_reduce(part(whole, piece), partials.first(piece), partials.second(piece),
                                masked == nullptr ? nullptr : masked + start(piece));
    });
    combine_gradients(partials, pass, saved, factor, slope, offset);
    if (masked != nullptr) {
      // The first sweep stored the gradient behind the ReLU: nothing is left to add or to mask.
      whole.output_gradient = masked;
      whole.other_gradient = nullptr;
      whole.mask = detail::ReluMask::kNone;
    }
    detail::for_each_chunk(pieces_, [&](std::size_t piece) {
      detail::batch_norm_input_gradient(part(whole, piece), slope, offset,
                                        pass.input_gradients[0].data() + start(piece));
    });
  }

 private:
  void forward_train(const ForwardPass& pass) {
    Partials partials(*this, pass.scratch);
    detail::for_each_chunk(pieces_, [&](std::size_t piece) {
      detail::batch_norm_moments(
          {at(pass.inputs[0], piece), rows(piece), spec_.channels, partials.first(piece), partials.second(piece)});
    });
    combine_moments(partials, pass);
    const Saved saved(*this, pass.saved);
    float* factor = partials.end();
    for (std::size_t c = 0; c < spec_.channels; ++c)
      factor[c] = pass.parameters[0].data()[c] * saved.inverse_deviation[c];
    normalize(pass, saved.mean, factor);
  }

  void forward_evaluate(const ForwardPass& pass) {
    float* factor = pass.scratch.data();
    for (std::size_t c = 0; c < spec_.channels; ++c)
      factor[c] = pass.parameters[0].data()[c] * inverse_deviation(pass.statistics[1].data()[c]);
    normalize(pass, pass.statistics[0].data(), factor);
  }

  /// The partial results: two rows of channels per piece, at the front of the scratch memory.
  struct Partials {
    Partials(const CpuBatchNorm& plan, View<float> scratch)
        : data(scratch.data()), stride(aligned_floats(plan.spec_.channels)), count(plan.pieces_.count()) {}
    float* first(std::size_t piece) const { return data + 2 * piece * stride; }
    float* second(std::size_t piece) const { return first(piece) + stride; }
    float* end() const { return first(count); }

    float* data;
    std::size_t stride;
    std::size_t count;
  };
  /// The statistics of the batch, kept from forward to backward.
  template <class T>
  struct SavedRows {
    SavedRows(const CpuBatchNorm& plan, View<T> saved)
        : mean(saved.data()), inverse_deviation(mean + aligned_floats(plan.spec_.channels)) {}
    T* mean;
    T* inverse_deviation;
  };
  using Saved = SavedRows<const float>;

  std::size_t start(std::size_t piece) const { return pieces_.begin(piece) * spec_.channels; }
  std::size_t rows(std::size_t piece) const { return pieces_.end(piece) - pieces_.begin(piece); }
  const float* at(TypedView<const float> data, std::size_t piece) const { return data.data() + start(piece); }

  float inverse_deviation(float variance) const { return 1.0f / std::sqrt(variance + spec_.epsilon); }

  /// Combines the pieces' means and squared deviations (Chan, Golub and LeVeque), and updates the running statistics.
  void combine_moments(const Partials& partials, const ForwardPass& pass) const {
    const SavedRows<float> saved(*this, pass.saved);
    const double count = static_cast<double>(spec_.rows);
    const double unbiased = spec_.rows > 1 ? count / (count - 1) : 1.0;
    for (std::size_t c = 0; c < spec_.channels; ++c) {
      double mean = 0;
      for (std::size_t p = 0; p < partials.count; ++p) mean += static_cast<double>(rows(p)) * partials.first(p)[c];
      mean /= count;
      double deviation = 0;
      for (std::size_t p = 0; p < partials.count; ++p) {
        const double difference = partials.first(p)[c] - mean;
        deviation += partials.second(p)[c] + static_cast<double>(rows(p)) * difference * difference;
      }
      const double variance = deviation / count;
      saved.mean[c] = static_cast<float>(mean);
      saved.inverse_deviation[c] = inverse_deviation(static_cast<float>(variance));
      update_running(pass.statistics[0].data()[c], mean);
      update_running(pass.statistics[1].data()[c], variance * unbiased);
    }
  }

  void update_running(float& running, double batch) const {
    running = static_cast<float>((1.0 - spec_.momentum) * running + spec_.momentum * batch);
  }

  void normalize(const ForwardPass& pass, const float* mean, const float* factor) const {
    const float* residual = spec_.residual ? pass.inputs[1].data() : nullptr;
    detail::for_each_chunk(pieces_, [&](std::size_t piece) {
      detail::batch_norm_normalize({at(pass.inputs[0], piece), residual == nullptr ? nullptr : residual + start(piece),
                                    rows(piece), spec_.channels, mean, factor, pass.parameters[1].data(), spec_.relu,
                                    pass.output.data() + start(piece)});
    });
  }

  detail::BackwardPiece describe(const BackwardPass& pass, const float* mean, const float* factor) const {
    const auto gradients = pass.output_gradients;
    detail::BackwardPiece whole;
    whole.input = pass.inputs[0].data();
    whole.output = pass.output.data();
    whole.output_gradient = gradients[0].data();
    whole.other_gradient = gradients.size() > 1 ? gradients[1].data() : nullptr;
    whole.channels = spec_.channels;
    if (spec_.relu) whole.mask = spec_.residual ? detail::ReluMask::kOutput : detail::ReluMask::kRecompute;
    whole.mean = mean;
    whole.factor = factor;
    whole.shift = pass.parameters[1].data();
    return whole;
  }

  detail::BackwardPiece part(detail::BackwardPiece whole, std::size_t piece) const {
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
  void combine_gradients(const Partials& partials, const BackwardPass& pass, const Saved& saved, const float* factor,
                         float* slope, float* offset) const {
    const double count = static_cast<double>(spec_.rows);
    for (std::size_t c = 0; c < spec_.channels; ++c) {
      double sum = 0, moment = 0;
      for (std::size_t p = 0; p < partials.count; ++p) {
        sum += partials.first(p)[c];
        moment += partials.second(p)[c];
      }
      const double inverse = saved.inverse_deviation[c];
      pass.parameter_gradients[1].data()[c] = static_cast<float>(sum);
      pass.parameter_gradients[0].data()[c] = static_cast<float>(moment * inverse);
      slope[c] = static_cast<float>(-factor[c] * inverse * inverse * moment / count);
      offset[c] = static_cast<float>(-factor[c] * sum / count);
    }
  }

  BatchNormSpec spec_;
  detail::Chunks pieces_;
};

}  // namespace

constinit decltype(make_batch_norm_plan) make_batch_norm_plan("batch_norm",
                                                              construct_plan<CpuBatchNorm, Plan, BatchNormSpec>);

}  // namespace dragonn::kernels

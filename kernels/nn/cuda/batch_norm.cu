// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <memory>

#include "kernels/cuda/elements.h"
#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/normalization.h"

namespace dragonn::kernels::cuda {
namespace {

/// Reads the neighbouring columns of one row that a lane has.
template <class Element, std::size_t kWidth>
__device__ void load(const Element* data, std::size_t at, Pack<Element, kWidth>& pack) {
  pack = *reinterpret_cast<const Pack<Element, kWidth>*>(data + at);
}
/// Writes them.
template <class Element, std::size_t kWidth>
__device__ void store(const float (&values)[kWidth], Element* data, std::size_t at) {
  Pack<Element, kWidth> pack;
#pragma unroll
  for (std::size_t k = 0; k < kWidth; ++k) pack.values[k] = narrow<Element>(values[k]);
  *reinterpret_cast<Pack<Element, kWidth>*>(data + at) = pack;
}

/// The rows of which a thread has all loads under way before it computes: elements stay packed until then, so that they
/// take few registers.
constexpr std::size_t at_once(std::size_t width) {
  return width == 1 ? 4 : 2;
}

/// Reads the values of a lane's columns from an array with one value per channel.
template <std::size_t kWidth>
struct LaneValues {
  __device__ LaneValues(const float* channels, std::size_t column) {
#pragma unroll
    for (std::size_t k = 0; k < kWidth; ++k) values[k] = channels[column + k];
  }
  __device__ float operator[](std::size_t k) const {
    return values[k];
  }
  float values[kWidth];
};

/// Computes the mean of every piece of rows, and the sum of squared differences from it, by sums of the differences
/// from the piece's first row ("shifted data": Chan, Golub and LeVeque, 1983). That row is one of the data, so the sums
/// are of the size of their deviation, and float has room for them.
template <class Element, std::size_t kWidth>
__global__ void moments_kernel(ColumnCut cut, const Element* input, float* means, float* deviations) {
  constexpr std::size_t kRows = kWidth == 1 ? 16 : 8;
  const ColumnPlace place(cut);
  const bool inside = place.column < cut.columns;
  Pack<Element, kWidth> first_row;
  if (inside) load(input, place.begin * cut.columns + place.column, first_row);
  float sum[kWidth] = {}, squares[kWidth] = {};
  for (std::size_t first = place.row; inside && first < place.end; first += kRows * place.strands) {
    Pack<Element, kWidth> values[kRows];
#pragma unroll
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::size_t row = first + i * place.strands;
      if (row < place.end) load(input, row * cut.columns + place.column, values[i]);
    }
#pragma unroll
    for (std::size_t i = 0; i < kRows; ++i) {
      if (first + i * place.strands >= place.end) continue;
#pragma unroll
      for (std::size_t k = 0; k < kWidth; ++k) {
        const float difference = widen(values[i].values[k]) - widen(first_row.values[k]);
        sum[k] += difference;
        squares[k] += difference * difference;
      }
    }
  }
  const float total = sum_strands_of_columns(place, sum), total_squares = sum_strands_of_columns(place, squares);
  const std::size_t column = place.tile + threadIdx.x, to = blockIdx.x * cut.columns + column;
  if (threadIdx.x >= place.lanes * kWidth || column >= cut.columns) return;
  const float share = total / static_cast<float>(place.end - place.begin), deviation = total_squares - total * share;
  means[to] = widen(input[place.begin * cut.columns + column]) + share;
  deviations[to] = deviation < 0 ? 0.0f : deviation;  // keeps a NaN
}

struct CombineMoments {
  BatchNormSpec spec;
  ColumnCut cut;
  const float *means, *deviations, *scale;
  float *mean, *inverse_deviation;  // of the batch
  float *running_mean, *running_variance, *factor;
};

/// Combines the pieces' moments in double, and updates the running ones.
__global__ void combine_moments_kernel(CombineMoments to) {
  const ColumnPlace place(to.cut);
  const std::size_t c = place.column;
  const auto count = static_cast<double>(to.cut.rows);
  const auto rows_of = [&](std::size_t piece) {
    return static_cast<double>(min(to.cut.rows - piece * to.cut.piece_rows, to.cut.piece_rows));
  };
  const double mean =
      sum_pieces(place, to.cut, to.means, [&](std::size_t piece, float own) { return rows_of(piece) * own; }) / count;
  const double between = sum_pieces(place, to.cut, to.means, [&](std::size_t piece, float own) {
    return rows_of(piece) * (own - mean) * (own - mean);
  });
  const double deviation = sum_pieces(place, to.cut, to.deviations) + between;
  if (place.strand != 0 || c >= to.cut.columns) return;
  const double variance = deviation / count, unbiased = to.cut.rows > 1 ? count / (count - 1) : 1.0;
  const double weight = to.spec.momentum;
  to.running_mean[c] = static_cast<float>((1.0 - weight) * to.running_mean[c] + weight * mean);
  to.running_variance[c] = static_cast<float>((1.0 - weight) * to.running_variance[c] + weight * variance * unbiased);
  to.mean[c] = static_cast<float>(mean);
  to.inverse_deviation[c] = 1.0f / sqrtf(static_cast<float>(variance) + to.spec.epsilon);
  to.factor[c] = to.scale[c] * to.inverse_deviation[c];
}

__global__ void running_factor_kernel(const float* scale, const float* running_variance, float epsilon, float* factor,
                                      std::size_t channels) {
  for (std::size_t c = first_element(); c < channels; c += element_stride())
    factor[c] = scale[c] * (1.0f / sqrtf(running_variance[c] + epsilon));
}

template <class Element>
struct Normalize {
  const Element *input, *residual;
  const float *mean, *factor, *shift;
  bool relu;
  Element* output;
};

/// Computes y = max(0, (x - mean) * factor + shift + residual).
template <class Element, std::size_t kWidth>
__global__ void normalize_kernel(ColumnCut cut, Normalize<Element> to) {
  constexpr std::size_t kRows = 2 * at_once(kWidth);
  const ColumnPlace place(cut);
  if (place.column >= cut.columns) return;
  const LaneValues<kWidth> mean(to.mean, place.column), factor(to.factor, place.column), shift(to.shift, place.column);
  for (std::size_t first = place.row; first < place.end; first += kRows * place.strands) {
    Pack<Element, kWidth> inputs[kRows], residuals[kRows];
#pragma unroll
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::size_t row = first + i * place.strands, at = row * cut.columns + place.column;
      if (row >= place.end) continue;
      load(to.input, at, inputs[i]);
      if (to.residual != nullptr) load(to.residual, at, residuals[i]);
    }
#pragma unroll
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::size_t row = first + i * place.strands;
      if (row >= place.end) continue;
      float values[kWidth];
#pragma unroll
      for (std::size_t k = 0; k < kWidth; ++k) {
        float value = (widen(inputs[i].values[k]) - mean[k]) * factor[k] + shift[k];
        if (to.residual != nullptr) value += widen(residuals[i].values[k]);
        values[k] = to.relu && value <= 0 ? 0.0f : value;  // keeps a NaN
      }
      store(values, to.output, row * cut.columns + place.column);
    }
  }
}

enum class Mask { kNone, kRecompute, kOutput };

template <class Element>
struct Gradients {
  const Element *input, *output, *first, *second;  // `second` may be null
  Mask mask;
  const float *mean, *factor, *shift;
  Element* masked;  // where the gradient behind the ReLU goes; may be null
};

/// Calls see(at, centered, gradient) for all rows of a thread: `at` is the place of its columns, `centered` the input
/// without the mean, and `gradient` the one behind the ReLU.
template <class Element, std::size_t kWidth, class See>
__device__ void for_each_row(const ColumnCut& cut, const ColumnPlace& place, const Gradients<Element>& from,
                             const LaneValues<kWidth>& mean, const LaneValues<kWidth>& factor, const See& see) {
  constexpr std::size_t kRows = at_once(kWidth);
  const LaneValues<kWidth> shift(from.shift, place.column);
  for (std::size_t first = place.row; first < place.end; first += kRows * place.strands) {
    Pack<Element, kWidth> inputs[kRows], firsts[kRows], seconds[kRows], outputs[kRows];
#pragma unroll
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::size_t row = first + i * place.strands, at = row * cut.columns + place.column;
      if (row >= place.end) continue;
      load(from.input, at, inputs[i]);
      load(from.first, at, firsts[i]);
      if (from.second != nullptr) load(from.second, at, seconds[i]);
      if (from.mask == Mask::kOutput) load(from.output, at, outputs[i]);
    }
#pragma unroll
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::size_t row = first + i * place.strands;
      if (row >= place.end) continue;
      float centered[kWidth], gradient[kWidth];
#pragma unroll
      for (std::size_t k = 0; k < kWidth; ++k) {
        centered[k] = widen(inputs[i].values[k]) - mean[k];
        gradient[k] = widen(firsts[i].values[k]);
        if (from.second != nullptr) gradient[k] += widen(seconds[i].values[k]);
        if (from.mask == Mask::kNone) continue;
        const float value =
            from.mask == Mask::kOutput ? widen(outputs[i].values[k]) : centered[k] * factor[k] + shift[k];
        if (!(value > 0)) gradient[k] = 0;
      }
      see(row * cut.columns + place.column, centered, gradient);
    }
  }
}

/// Computes partial sums of g and g * (x - mean), and stores g if asked.
template <class Element, std::size_t kWidth>
__global__ void reduce_kernel(ColumnCut cut, Gradients<Element> from, float* sums, float* moments) {
  const ColumnPlace place(cut);
  float sum[kWidth] = {}, moment[kWidth] = {};
  if (place.column < cut.columns) {
    const LaneValues<kWidth> mean(from.mean, place.column), factor(from.factor, place.column);
    for_each_row(cut, place, from, mean, factor,
                 [&](std::size_t at, const float(&centered)[kWidth], const float(&gradient)[kWidth]) {
                   if (from.masked != nullptr) store(gradient, from.masked, at);
#pragma unroll
                   for (std::size_t k = 0; k < kWidth; ++k) {
                     sum[k] += gradient[k];
                     moment[k] += gradient[k] * centered[k];
                   }
                 });
  }
  const float total = sum_strands_of_columns(place, sum), moment_total = sum_strands_of_columns(place, moment);
  const std::size_t column = place.tile + threadIdx.x;
  if (threadIdx.x >= place.lanes * kWidth || column >= cut.columns) return;
  sums[blockIdx.x * cut.columns + column] = total;
  moments[blockIdx.x * cut.columns + column] = moment_total;
}

struct CombineGradients {
  ColumnCut cut;
  const float *sums, *moments, *inverse_deviation, *factor;
  float *scale_gradient, *shift_gradient, *slope, *offset;
};

/// Computes, with g the gradient behind the ReLU, N rows and s the inverse deviation:
/// dx = factor * (g - mean(g) - (x - mean) * s^2 * mean(g * (x - mean))).
__global__ void combine_gradients_kernel(CombineGradients to) {
  const ColumnPlace place(to.cut);
  const double sum = sum_pieces(place, to.cut, to.sums), moment = sum_pieces(place, to.cut, to.moments);
  const std::size_t c = place.column;
  if (place.strand != 0 || c >= to.cut.columns) return;
  const auto count = static_cast<double>(to.cut.rows);
  const double inverse = to.inverse_deviation[c], factor = to.factor[c];
  to.shift_gradient[c] = static_cast<float>(sum);
  to.scale_gradient[c] = static_cast<float>(moment * inverse);
  to.slope[c] = static_cast<float>(-factor * inverse * inverse * moment / count);
  to.offset[c] = static_cast<float>(-factor * sum / count);
}

/// Computes dx = factor * g + (x - mean) * slope + offset.
template <class Element, std::size_t kWidth>
__global__ void input_gradient_kernel(ColumnCut cut, Gradients<Element> from, const float* slopes, const float* offsets,
                                      Element* input_gradient) {
  const ColumnPlace place(cut);
  if (place.column >= cut.columns) return;
  const LaneValues<kWidth> mean(from.mean, place.column), factor(from.factor, place.column),
      slope(slopes, place.column), offset(offsets, place.column);
  for_each_row(cut, place, from, mean, factor,
               [&](std::size_t at, const float(&centered)[kWidth], const float(&gradient)[kWidth]) {
                 float result[kWidth];
#pragma unroll
                 for (std::size_t k = 0; k < kWidth; ++k)
                   result[k] = factor[k] * gradient[k] + (centered[k] * slope[k] + offset[k]);
                 store(result, input_gradient, at);
               });
}

/// The columns of a lane, if the channels are a multiple of them, else it has one. Eight of bf16, 16 bytes, would be
/// one access instead of two, but their factors take so many registers that too few threads run at once.
constexpr std::size_t kLaneColumns = 4;

/// Runs batch norm of elements of one type. Data begins at multiples of 16 bytes.
template <class Element, std::size_t kWidth>
class CudaBatchNorm final : public Plan {
 public:
  CudaBatchNorm(const Device& device, const BatchNormSpec& spec)
      : device_(device),
        spec_(spec),
        cut_(spec.rows, spec.channels, kWidth),
        channel_cut_(cut_.by_column()),
        channels_(aligned_floats(spec.channels)),
        partials_(aligned_floats(cut_.partials())) {}

  PlanMemory memory() const override {
    return {3 * channels_, std::max(2 * partials_, channels_), 2 * partials_ + 2 * channels_};
  }

  void forward(const ForwardPass& pass) override { spec_.training ? forward_train(pass) : forward_evaluate(pass); }

  void backward(const BackwardPass& pass) override {
    const Context& here = context(device_);
    const float *mean = pass.saved.data(), *inverse_deviation = mean + channels_, *factor = mean + 2 * channels_;
    float *sums = pass.scratch.data(), *moments = sums + partials_;
    float *slope = moments + partials_, *offset = slope + channels_;
    Gradients<Element> gradients = gradients_of(pass, mean, factor);
    launch(here, "batch_norm_reduce", blocks_of(cut_), kThreads, reduce_kernel<Element, kWidth>, cut_, gradients, sums,
           moments);
    launch(here, "batch_norm_combine_gradients", tiles_of(channel_cut_), kThreads, combine_gradients_kernel,
           {channel_cut_, sums, moments, inverse_deviation, factor, pass.parameter_gradients[0].data(),
            pass.parameter_gradients[1].data(), slope, offset});
    if (gradients.masked != nullptr) {
      // The first sweep stored the gradient behind the ReLU: nothing is left to add or to mask.
      gradients.first = gradients.masked;
      gradients.second = nullptr;
      gradients.mask = Mask::kNone;
    }
    launch(here, "batch_norm_input_gradient", blocks_of(cut_), kThreads, input_gradient_kernel<Element, kWidth>, cut_,
           gradients, slope, offset, elements(pass.input_gradients[0]));
  }

 private:
  void forward_train(const ForwardPass& pass) {
    const Context& here = context(device_);
    float *means = pass.scratch.data(), *deviations = means + partials_;
    float *mean = pass.saved.data(), *factor = mean + 2 * channels_;
    launch(here, "batch_norm_moments", blocks_of(cut_), kThreads, moments_kernel<Element, kWidth>, cut_,
           elements(pass.inputs[0]), means, deviations);
    launch(here, "batch_norm_combine_moments", tiles_of(channel_cut_), kThreads, combine_moments_kernel,
           {spec_, channel_cut_, means, deviations, pass.parameters[0].data(), mean, mean + channels_,
            pass.statistics[0].data(), pass.statistics[1].data(), factor});
    normalize(here, pass, mean, factor);
  }

  void forward_evaluate(const ForwardPass& pass) {
    const Context& here = context(device_);
    float* factor = pass.scratch.data();
    launch_over(here, "batch_norm_running_factor", spec_.channels, running_factor_kernel, pass.parameters[0].data(),
                pass.statistics[1].data(), spec_.epsilon, factor, spec_.channels);
    normalize(here, pass, pass.statistics[0].data(), factor);
  }

  template <class View>
  static auto* elements(const View& view) {
    DRAGONN_CHECK(is_aligned(view.raw()), "batch norm of memory that does not begin at a multiple of 16 bytes");
    return view.template as<Element>();
  }

  void normalize(const Context& here, const ForwardPass& pass, const float* mean, const float* factor) const {
    launch(here, "batch_norm_normalize", blocks_of(cut_), kThreads, normalize_kernel<Element, kWidth>, cut_,
           {elements(pass.inputs[0]), spec_.residual ? elements(pass.inputs[1]) : nullptr, mean, factor,
            pass.parameters[1].data(), spec_.relu, elements(pass.output)});
  }

  Gradients<Element> gradients_of(const BackwardPass& pass, const float* mean, const float* factor) const {
    const auto gradients = pass.output_gradients;
    const Mask mask = !spec_.relu ? Mask::kNone : spec_.residual ? Mask::kOutput : Mask::kRecompute;
    return {elements(pass.inputs[0]),
            elements(pass.output),
            elements(gradients[0]),
            gradients.size() > 1 ? elements(gradients[1]) : nullptr,
            mask,
            mean,
            factor,
            pass.parameters[1].data(),
            spec_.residual ? elements(pass.input_gradients[1]) : nullptr};
  }

  Device device_;
  BatchNormSpec spec_;
  ColumnCut cut_, channel_cut_;
  std::size_t channels_, partials_;
};

template <class Element>
std::unique_ptr<Plan> make_of(const Device& device, const BatchNormSpec& spec) {
  if (spec.channels % kLaneColumns != 0) return std::make_unique<CudaBatchNorm<Element, 1>>(device, spec);
  return std::make_unique<CudaBatchNorm<Element, kLaneColumns>>(device, spec);
}

std::unique_ptr<Plan> make(const Device& device, const BatchNormSpec& spec) {
  return spec.type == ElementType::kBf16 ? make_of<Bf16>(device, spec) : make_of<float>(device, spec);
}

[[maybe_unused]] const bool registered = kernels::make_batch_norm_plan.add(DeviceType::kCuda, make);

}  // namespace
}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/cuda/columns.h"

namespace dragonn::kernels::cuda {
namespace {

/// The statistics of a batch, one value per channel.
struct Moments {
  float *mean, *inverse_deviation;
};

/// The mean of `count` values, and the sum of squared differences from it.
struct Gathered {
  double count, mean, deviation;
};

/// Returns the moments of both together (Chan, Golub and LeVeque).
__device__ Gathered merge(const Gathered& a, const Gathered& b) {
  const double count = a.count + b.count;
  if (count == 0) return a;
  const double difference = b.mean - a.mean, part = b.count / count;
  return {count, a.mean + difference * part, a.deviation + b.deviation + difference * difference * a.count * part};
}

/// Computes the moments of every piece of rows. A thread has some rows of its column in registers at a time, and so
/// reads memory once.
__global__ void moments_kernel(ColumnCut cut, const float* input, float* means, float* deviations) {
  constexpr std::size_t kRows = ColumnCut::kRowsAtOnce;
  __shared__ Gathered strands[kThreads];
  const ColumnPlace place(cut);
  const bool inside = place.column < cut.columns;
  Gathered own{0, 0, 0};
  for (std::size_t first = place.row; inside && first < place.end; first += kRows * place.strands) {
    float values[kRows], sum = 0, deviation = 0;
    const std::size_t count = min(kRows, (place.end - first + place.strands - 1) / place.strands);
#pragma unroll
    for (std::size_t i = 0; i < kRows; ++i)
      values[i] = i < count ? input[(first + i * place.strands) * cut.columns + place.column] : 0.0f;
#pragma unroll
    for (std::size_t i = 0; i < kRows; ++i) sum += values[i];
    const float mean = sum / static_cast<float>(count);
#pragma unroll
    for (std::size_t i = 0; i < kRows; ++i)
      if (i < count) deviation += (values[i] - mean) * (values[i] - mean);
    own = merge(own, {static_cast<double>(count), mean, deviation});
  }
  strands[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = place.strands / 2; half > 0; half /= 2) {
    if (place.strand < half)
      strands[threadIdx.x] = merge(strands[threadIdx.x], strands[threadIdx.x + half * place.lanes]);
    __syncthreads();
  }
  if (place.strand != 0 || !inside) return;
  means[blockIdx.x * cut.columns + place.column] = static_cast<float>(strands[threadIdx.x].mean);
  deviations[blockIdx.x * cut.columns + place.column] = static_cast<float>(strands[threadIdx.x].deviation);
}

struct CombineMoments {
  BatchNormSpec spec;
  ColumnCut cut;
  const float *means, *deviations, *scale;
  Moments saved;
  float *running_mean, *running_variance, *factor;
};

/// Combines the pieces' moments in double, and updates the running ones.
__global__ void combine_moments_kernel(CombineMoments to) {
  const ColumnPlace place(to.cut);
  const std::size_t c = place.column;
  const auto sum = [&](const auto& term) {
    double total = 0;
    if (c < to.cut.columns)
      for (std::size_t piece = place.strand; piece < to.cut.pieces; piece += place.strands) {
        const std::size_t begin = piece * to.cut.piece_rows;
        const auto rows = static_cast<double>(min(to.cut.rows - begin, to.cut.piece_rows));
        total += term(rows, to.means[piece * to.cut.columns + c], to.deviations[piece * to.cut.columns + c]);
      }
    return sum_strands(place, total);
  };
  const auto count = static_cast<double>(to.cut.rows);
  const double mean = sum([](double rows, float own_mean, float) { return rows * own_mean; }) / count;
  const double deviation = sum([mean](double rows, float own_mean, float own_deviation) {
    return own_deviation + rows * (own_mean - mean) * (own_mean - mean);
  });
  if (place.strand != 0 || c >= to.cut.columns) return;
  const double variance = deviation / count, unbiased = to.cut.rows > 1 ? count / (count - 1) : 1.0;
  const double weight = to.spec.momentum;
  to.running_mean[c] = static_cast<float>((1.0 - weight) * to.running_mean[c] + weight * mean);
  to.running_variance[c] = static_cast<float>((1.0 - weight) * to.running_variance[c] + weight * variance * unbiased);
  to.saved.mean[c] = static_cast<float>(mean);
  to.saved.inverse_deviation[c] = 1.0f / sqrtf(static_cast<float>(variance) + to.spec.epsilon);
  to.factor[c] = to.scale[c] * to.saved.inverse_deviation[c];
}

__global__ void running_factor_kernel(const float* scale, const float* running_variance, float epsilon, float* factor,
                                      std::size_t channels) {
  for (std::size_t c = first_element(); c < channels; c += element_stride())
    factor[c] = scale[c] * (1.0f / sqrtf(running_variance[c] + epsilon));
}

struct Normalize {
  const float *input, *residual, *mean, *factor, *shift;
  bool relu;
  float* output;
};

/// Computes y = max(0, (x - mean) * factor + shift + residual), of several rows at a time: all loads of a thread are in
/// flight before its first store.
__global__ void normalize_kernel(ColumnCut cut, Normalize to) {
  constexpr std::size_t kAtOnce = 4;
  const ColumnPlace place(cut);
  if (place.column >= cut.columns) return;
  const float mean = to.mean[place.column], factor = to.factor[place.column], shift = to.shift[place.column];
  for (std::size_t first = place.row; first < place.end; first += kAtOnce * place.strands) {
    float values[kAtOnce];
#pragma unroll
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      const std::size_t row = first + i * place.strands, at = row * cut.columns + place.column;
      if (row >= place.end) continue;
      const float value = (to.input[at] - mean) * factor + shift;
      values[i] = to.residual == nullptr ? value : value + to.residual[at];
    }
#pragma unroll
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      const std::size_t row = first + i * place.strands;
      if (row < place.end)
        to.output[row * cut.columns + place.column] = to.relu && values[i] <= 0 ? 0.0f : values[i];  // keeps a NaN
    }
  }
}

enum class Mask { kNone, kRecompute, kOutput };

/// The gradient behind the ReLU, and the centered input, of the elements of one column.
struct ColumnGradient {
  const float *input, *output, *first, *second;
  Mask mask;
  float mean, factor, shift;

  __device__ float centered(std::size_t at) const { return input[at] - mean; }
  __device__ float behind_relu(std::size_t at, float centered_input) const {
    const float gradient = second == nullptr ? first[at] : first[at] + second[at];
    if (mask == Mask::kNone) return gradient;
    const float value = mask == Mask::kOutput ? output[at] : centered_input * factor + shift;
    return value > 0 ? gradient : 0.0f;
  }
};

struct Gradients {
  const float *input, *output, *first, *second;  // `second` may be null
  Mask mask;
  const float *mean, *factor, *shift;
  float* masked;  // where the gradient behind the ReLU goes; may be null

  __device__ ColumnGradient column(std::size_t c) const {
    return {input, output, first, second, mask, mean[c], factor[c], shift[c]};
  }
  /// Returns the terms of column_pair_kernel: g and g * (x - mean).
  __device__ auto of(std::size_t c) const {
    return [own = column(c), target = masked](std::size_t, std::size_t at) {
      const float centered = own.centered(at), gradient = own.behind_relu(at, centered);
      if (target != nullptr) target[at] = gradient;
      return float2{gradient, gradient * centered};
    };
  }
};

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

__global__ void factor_kernel(const float* scale, const float* inverse_deviation, float* factor, std::size_t channels) {
  for (std::size_t c = first_element(); c < channels; c += element_stride())
    factor[c] = scale[c] * inverse_deviation[c];
}

/// Computes dx = factor * g + (x - mean) * slope + offset.
__global__ void input_gradient_kernel(ColumnCut cut, Gradients gradients, const float* slopes, const float* offsets,
                                      float* input_gradient) {
  const ColumnPlace place(cut);
  if (place.column >= cut.columns) return;
  const ColumnGradient own = gradients.column(place.column);
  const float slope = slopes[place.column], offset = offsets[place.column];
  for (std::size_t row = place.row; row < place.end; row += place.strands) {
    const std::size_t at = row * cut.columns + place.column;
    const float centered = own.centered(at), gradient = own.behind_relu(at, centered);
    input_gradient[at] = own.factor * gradient + (centered * slope + offset);
  }
}

class CudaBatchNorm final : public BatchNormPlan {
 public:
  CudaBatchNorm(const Device& device, const BatchNormSpec& spec)
      : device_(device),
        spec_(spec),
        cut_(spec.rows, spec.channels),
        channels_(aligned_floats(spec.channels)),
        partials_(aligned_floats(cut_.partials())) {}

  PlanMemory memory() const override {
    return {2 * channels_, 2 * partials_ + channels_, 2 * partials_ + 3 * channels_};
  }

  void forward_train(const BatchNormForward& arguments) override {
    const Context& here = context(device_);
    float *means = arguments.scratch.data(), *deviations = means + partials_, *factor = deviations + partials_;
    const Moments saved{arguments.saved.data(), arguments.saved.data() + channels_};
    launch(here, "batch_norm_moments", blocks_of(cut_), kThreads, moments_kernel, cut_, arguments.input.data(), means,
           deviations);
    launch(here, "batch_norm_combine_moments", tiles_of(cut_), kThreads, combine_moments_kernel,
           {spec_, cut_, means, deviations, arguments.scale.data(), saved, arguments.running_mean.data(),
            arguments.running_variance.data(), factor});
    normalize(here, arguments, saved.mean, factor);
  }

  void forward_evaluate(const BatchNormForward& arguments) override {
    const Context& here = context(device_);
    float* factor = arguments.scratch.data();
    launch_over(here, "batch_norm_running_factor", spec_.channels, running_factor_kernel, arguments.scale.data(),
                arguments.running_variance.data(), spec_.epsilon, factor, spec_.channels);
    normalize(here, arguments, arguments.running_mean.data(), factor);
  }

  void backward(const BatchNormBackward& arguments) override {
    const Context& here = context(device_);
    const float *mean = arguments.saved.data(), *inverse_deviation = mean + channels_;
    float *sums = arguments.scratch.data(), *moments = sums + partials_;
    float *factor = moments + partials_, *slope = factor + channels_, *offset = slope + channels_;
    launch_over(here, "batch_norm_factor", spec_.channels, factor_kernel, arguments.scale.data(), inverse_deviation,
                factor, spec_.channels);
    Gradients gradients = describe(arguments, mean, factor);
    launch(here, "batch_norm_reduce", blocks_of(cut_), kThreads, column_pair_kernel<Gradients>, gradients, cut_, sums,
           moments);
    launch(here, "batch_norm_combine_gradients", tiles_of(cut_), kThreads, combine_gradients_kernel,
           {cut_, sums, moments, inverse_deviation, factor, arguments.scale_gradient.data(),
            arguments.shift_gradient.data(), slope, offset});
    if (gradients.masked != nullptr) {
      // The first sweep stored the gradient behind the ReLU: nothing is left to add or to mask.
      gradients.first = gradients.masked;
      gradients.second = nullptr;
      gradients.mask = Mask::kNone;
    }
    launch(here, "batch_norm_input_gradient", blocks_of(cut_), kThreads, input_gradient_kernel, cut_, gradients, slope,
           offset, arguments.input_gradient.data());
  }

 private:
  void normalize(const Context& here, const BatchNormForward& arguments, const float* mean, const float* factor) const {
    launch(here, "batch_norm_normalize", blocks_of(cut_), kThreads, normalize_kernel, cut_,
           {arguments.input.data(), arguments.residual.data(), mean, factor, arguments.shift.data(), spec_.relu,
            arguments.output.data()});
  }

  Gradients describe(const BatchNormBackward& arguments, const float* mean, const float* factor) const {
    const auto gradients = arguments.output_gradients;
    const Mask mask = !spec_.relu ? Mask::kNone : spec_.residual ? Mask::kOutput : Mask::kRecompute;
    return {arguments.input.data(),
            arguments.output.data(),
            gradients[0].data(),
            gradients.size() > 1 ? gradients[1].data() : nullptr,
            mask,
            mean,
            factor,
            arguments.shift.data(),
            arguments.residual_gradient.data()};
  }

  Device device_;
  BatchNormSpec spec_;
  ColumnCut cut_;
  std::size_t channels_, partials_;
};

[[maybe_unused]] const bool registered =
    kernels::make_batch_norm_plan.add(DeviceType::kCuda, construct_plan<CudaBatchNorm>);

}  // namespace
}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
#include "kernels/cuda/elements.h"
#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/normalization.h"

namespace dragonn::kernels::cuda {
namespace {

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

/// Reads or writes the neighbouring columns of one row that a lane has.
template <class Element, std::size_t kWidth>
__device__ void load(const Element* data, std::size_t at, float (&values)[kWidth]) {
  const auto pack = *reinterpret_cast<const Pack<Element, kWidth>*>(data + at);
#pragma unroll
  for (std::size_t k = 0; k < kWidth; ++k) values[k] = widen(pack.values[k]);
}
template <class Element, std::size_t kWidth>
__device__ void store(const float (&values)[kWidth], Element* data, std::size_t at) {
  Pack<Element, kWidth> pack;
#pragma unroll
  for (std::size_t k = 0; k < kWidth; ++k) pack.values[k] = narrow<Element>(values[k]);
  *reinterpret_cast<Pack<Element, kWidth>*>(data + at) = pack;
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

/// Merges the strands' moments of one column and writes those of the piece. All threads of the block call it.
__device__ inline void write_moments(const ColumnPlace& place, const Gathered& own, bool inside, std::size_t to,
                                     float* means, float* deviations) {
  __shared__ Gathered strands[kThreads];
  __syncthreads();  // a call before this one may still read
  strands[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = place.strands / 2; half > 0; half /= 2) {
    if (place.strand < half)
      strands[threadIdx.x] = merge(strands[threadIdx.x], strands[threadIdx.x + half * place.lanes]);
    __syncthreads();
  }
  if (place.strand != 0 || !inside) return;
  means[to] = static_cast<float>(strands[threadIdx.x].mean);
  deviations[to] = static_cast<float>(strands[threadIdx.x].deviation);
}

/// Computes the moments of every piece of rows. A thread has some rows of its columns in registers at a time, and so
/// reads memory once.
template <class Element, std::size_t kWidth>
__global__ void moments_kernel(ColumnCut cut, const Element* input, float* means, float* deviations) {
  constexpr std::size_t kRows = ColumnCut::rows_at_once(kWidth);
  const ColumnPlace place(cut);
  const bool inside = place.column < cut.columns;
  // One division serves all columns: their counts are one.
  double seen = 0, mean[kWidth] = {}, deviation[kWidth] = {};
  for (std::size_t first = place.row; inside && first < place.end; first += kRows * place.strands) {
    float values[kRows][kWidth];
    const std::size_t count = min(kRows, (place.end - first + place.strands - 1) / place.strands);
#pragma unroll
    for (std::size_t i = 0; i < kRows; ++i)
      if (i < count) load(input, (first + i * place.strands) * cut.columns + place.column, values[i]);
    const float share = 1 / static_cast<float>(count);
    const double part = static_cast<double>(count) / (seen + static_cast<double>(count)), weight = seen * part;
    seen += static_cast<double>(count);
#pragma unroll
    for (std::size_t k = 0; k < kWidth; ++k) {
      float sum = 0, own_deviation = 0;
#pragma unroll
      for (std::size_t i = 0; i < kRows; ++i)
        if (i < count) sum += values[i][k];
      const float own_mean = sum * share;
#pragma unroll
      for (std::size_t i = 0; i < kRows; ++i)
        if (i < count) own_deviation += (values[i][k] - own_mean) * (values[i][k] - own_mean);
      const double difference = own_mean - mean[k];  // as merge()
      mean[k] += difference * part;
      deviation[k] += own_deviation + difference * difference * weight;
    }
  }
#pragma unroll
  for (std::size_t k = 0; k < kWidth; ++k)
    write_moments(place, {seen, mean[k], deviation[k]}, inside, blockIdx.x * cut.columns + place.column + k, means,
                  deviations);
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

/// Computes y = max(0, (x - mean) * factor + shift + residual), of several rows at a time: all loads of a thread are in
/// flight before its first store.
template <class Element, std::size_t kWidth>
__global__ void normalize_kernel(ColumnCut cut, Normalize<Element> to) {
  constexpr std::size_t kAtOnce = kWidth == 1 ? 4 : 2;
  const ColumnPlace place(cut);
  if (place.column >= cut.columns) return;
  const LaneValues<kWidth> mean(to.mean, place.column), factor(to.factor, place.column), shift(to.shift, place.column);
  for (std::size_t first = place.row; first < place.end; first += kAtOnce * place.strands) {
    float values[kAtOnce][kWidth], residuals[kAtOnce][kWidth];
#pragma unroll
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      const std::size_t row = first + i * place.strands, at = row * cut.columns + place.column;
      if (row >= place.end) continue;
      load(to.input, at, values[i]);
      if (to.residual != nullptr) load(to.residual, at, residuals[i]);
    }
#pragma unroll
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      const std::size_t row = first + i * place.strands;
      if (row >= place.end) continue;
#pragma unroll
      for (std::size_t k = 0; k < kWidth; ++k) {
        float value = (values[i][k] - mean[k]) * factor[k] + shift[k];
        if (to.residual != nullptr) value += residuals[i][k];
        values[i][k] = to.relu && value <= 0 ? 0.0f : value;  // keeps a NaN
      }
      store(values[i], to.output, row * cut.columns + place.column);
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

/// The gradient behind the ReLU, and the centered input, of a lane's columns of one row.
template <class Element, std::size_t kWidth>
struct RowGradient {
  /// Starts the loads.
  __device__ void load_row(const Gradients<Element>& from, std::size_t at) {
    load(from.input, at, centered);
    load(from.first, at, gradient);
    if (from.second != nullptr) load(from.second, at, second);
    if (from.mask == Mask::kOutput) load(from.output, at, output);
  }
  template <class Values>
  __device__ void mask(const Gradients<Element>& from, const Values& mean, const Values& factor, const Values& shift) {
#pragma unroll
    for (std::size_t k = 0; k < kWidth; ++k) {
      centered[k] -= mean[k];
      if (from.second != nullptr) gradient[k] += second[k];
      if (from.mask == Mask::kNone) continue;
      const float value = from.mask == Mask::kOutput ? output[k] : centered[k] * factor[k] + shift[k];
      if (!(value > 0)) gradient[k] = 0;
    }
  }
  float centered[kWidth], gradient[kWidth], second[kWidth], output[kWidth];
};

/// Computes partial sums of g and g * (x - mean), and stores g if asked.
template <class Element, std::size_t kWidth>
__global__ void reduce_kernel(ColumnCut cut, Gradients<Element> from, float* sums, float* moments) {
  const ColumnPlace place(cut);
  const bool inside = place.column < cut.columns;
  const std::size_t channel = inside ? place.column : 0;
  const LaneValues<kWidth> mean(from.mean, channel), factor(from.factor, channel), shift(from.shift, channel);
  float sum[kWidth] = {}, moment[kWidth] = {};
#pragma unroll 2
  for (std::size_t row = place.row; inside && row < place.end; row += place.strands) {
    const std::size_t at = row * cut.columns + place.column;
    RowGradient<Element, kWidth> own;
    own.load_row(from, at);
    own.mask(from, mean, factor, shift);
    if (from.masked != nullptr) store(own.gradient, from.masked, at);
#pragma unroll
    for (std::size_t k = 0; k < kWidth; ++k) {
      sum[k] += own.gradient[k];
      moment[k] += own.gradient[k] * own.centered[k];
    }
  }
#pragma unroll
  for (std::size_t k = 0; k < kWidth; ++k) {
    const float total = sum_strands(place, sum[k]), moment_total = sum_strands(place, moment[k]);
    if (place.strand != 0 || !inside) continue;
    sums[blockIdx.x * cut.columns + place.column + k] = total;
    moments[blockIdx.x * cut.columns + place.column + k] = moment_total;
  }
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

__global__ void factor_kernel(const float* scale, const float* inverse_deviation, float* factor, std::size_t channels) {
  for (std::size_t c = first_element(); c < channels; c += element_stride())
    factor[c] = scale[c] * inverse_deviation[c];
}

/// Computes dx = factor * g + (x - mean) * slope + offset.
template <class Element, std::size_t kWidth>
__global__ void input_gradient_kernel(ColumnCut cut, Gradients<Element> from, const float* slopes, const float* offsets,
                                      Element* input_gradient) {
  const ColumnPlace place(cut);
  if (place.column >= cut.columns) return;
  const LaneValues<kWidth> mean(from.mean, place.column), factor(from.factor, place.column),
      shift(from.shift, place.column), slope(slopes, place.column), offset(offsets, place.column);
#pragma unroll 2
  for (std::size_t row = place.row; row < place.end; row += place.strands) {
    const std::size_t at = row * cut.columns + place.column;
    RowGradient<Element, kWidth> own;
    own.load_row(from, at);
    own.mask(from, mean, factor, shift);
#pragma unroll
    for (std::size_t k = 0; k < kWidth; ++k)
      own.gradient[k] = factor[k] * own.gradient[k] + (own.centered[k] * slope[k] + offset[k]);
    store(own.gradient, input_gradient, at);
  }
}

/// Returns the columns of a lane: 16 bytes of them if the channels are a multiple of these, else one.
constexpr std::size_t lane_width(const BatchNormSpec& spec) {
  const std::size_t pack = spec.type == ElementType::kBf16 ? kPackSize<Bf16> : kPackSize<float>;
  return spec.channels % pack == 0 ? pack : 1;
}

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
    return {2 * channels_, 2 * partials_ + channels_, 2 * partials_ + 3 * channels_};
  }

  void forward(const ForwardPass& pass) override { spec_.training ? forward_train(pass) : forward_evaluate(pass); }

  void backward(const BackwardPass& pass) override {
    const Context& here = context(device_);
    const float *mean = pass.saved.data(), *inverse_deviation = mean + channels_;
    float *sums = pass.scratch.data(), *moments = sums + partials_;
    float *factor = moments + partials_, *slope = factor + channels_, *offset = slope + channels_;
    launch_over(here, "batch_norm_factor", spec_.channels, factor_kernel, pass.parameters[0].data(), inverse_deviation,
                factor, spec_.channels);
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
    float *means = pass.scratch.data(), *deviations = means + partials_, *factor = deviations + partials_;
    float* mean = pass.saved.data();
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
  if (lane_width(spec) == 1) return std::make_unique<CudaBatchNorm<Element, 1>>(device, spec);
  return std::make_unique<CudaBatchNorm<Element, kPackSize<Element>>>(device, spec);
}

std::unique_ptr<Plan> make(const Device& device, const BatchNormSpec& spec) {
  return spec.type == ElementType::kBf16 ? make_of<Bf16>(device, spec) : make_of<float>(device, spec);
}

[[maybe_unused]] const bool registered = kernels::make_batch_norm_plan.add(DeviceType::kCuda, make);

}  // namespace
}  // namespace dragonn::kernels::cuda

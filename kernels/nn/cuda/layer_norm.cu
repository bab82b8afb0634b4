// SPDX-License-Identifier: MIT
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/elements.h"
#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/normalization.h"

namespace dragonn::kernels::cuda {
namespace {

template <class Element>
struct Forward {
  Reader<Element> input;
  const float *scale, *shift;
  Writer<Element> output;
  float *means, *inverse_deviations;
};

/// Runs forward, a block per row.
template <class Element>
__global__ void forward_kernel(Forward<Element> to, std::size_t columns, float epsilon) {
  const Reader<Element> input = to.input + blockIdx.x * columns;
  const Writer<Element> output = to.output + blockIdx.x * columns;
  double sum = 0, squares = 0;
  for (std::size_t c = threadIdx.x; c < columns; c += blockDim.x) sum += input[c];
  const double mean = block_reduce(sum, Sum()) / static_cast<double>(columns);
  for (std::size_t c = threadIdx.x; c < columns; c += blockDim.x) squares += (input[c] - mean) * (input[c] - mean);
  const double variance = block_reduce(squares, Sum()) / static_cast<double>(columns);
  const auto shift = static_cast<float>(mean);
  const float inverse = 1.0f / sqrtf(static_cast<float>(variance) + epsilon);
  for (std::size_t c = threadIdx.x; c < columns; c += blockDim.x)
    output[c] = (input[c] - shift) * inverse * to.scale[c] + to.shift[c];
  if (threadIdx.x != 0) return;
  to.means[blockIdx.x] = shift;
  to.inverse_deviations[blockIdx.x] = inverse;
}

/// The data that both parts of backward read.
template <class Element>
struct Backward {
  Reader<Element> input, output_gradient;
  const float *means, *inverse_deviations;
};

/// Computes partial sums of the gradients of scale and shift, with a block per piece and tile.
template <class Element>
__global__ void parameter_gradients_kernel(Backward<Element> of, ColumnCut cut, float* scale_sums, float* shift_sums) {
  const ColumnPlace place(cut);
  float scale = 0, shift = 0;
  if (place.column < cut.columns)
    for (std::size_t row = place.row; row < place.end; row += place.strands) {
      const std::size_t at = row * cut.columns + place.column;
      const float gradient = of.output_gradient[at];
      scale += gradient * ((of.input[at] - of.means[row]) * of.inverse_deviations[row]);
      shift += gradient;
    }
  const float scale_total = sum_strands(place, scale), shift_total = sum_strands(place, shift);
  if (place.strand != 0 || place.column >= cut.columns) return;
  scale_sums[blockIdx.x * cut.columns + place.column] = scale_total;
  shift_sums[blockIdx.x * cut.columns + place.column] = shift_total;
}

/// Computes, a block per row, with g = output gradient * scale and y the normalized input: dx = (g - mean(g) - y *
/// mean(g * y)) / deviation.
template <class Element>
__global__ void input_gradient_kernel(Backward<Element> to, std::size_t columns, const float* scale,
                                      Writer<Element> input_gradient) {
  const std::size_t row = blockIdx.x * columns;
  const Reader<Element> input = to.input + row, output_gradient = to.output_gradient + row;
  const float mean = to.means[blockIdx.x], inverse = to.inverse_deviations[blockIdx.x];
  double sum = 0, moment = 0;
  for (std::size_t c = threadIdx.x; c < columns; c += blockDim.x) {
    const float gradient = output_gradient[c] * scale[c];
    sum += gradient;
    moment += static_cast<double>(gradient) * ((input[c] - mean) * inverse);
  }
  const auto mean_gradient = static_cast<float>(block_reduce(sum, Sum()) / static_cast<double>(columns));
  const auto mean_moment = static_cast<float>(block_reduce(moment, Sum()) / static_cast<double>(columns));
  for (std::size_t c = threadIdx.x; c < columns; c += blockDim.x) {
    const float gradient = output_gradient[c] * scale[c], normalized = (input[c] - mean) * inverse;
    input_gradient[row + c] = inverse * (gradient - mean_gradient - normalized * mean_moment);
  }
}

class CudaLayerNorm final : public Plan {
 public:
  CudaLayerNorm(const Device& device, const LayerNormSpec& spec)
      : device_(device),
        spec_(spec),
        cut_(static_cast<std::size_t>(spec.rows), static_cast<std::size_t>(spec.columns)),
        rows_(aligned_floats(cut_.rows)),
        partials_(aligned_floats(cut_.partials())) {}

  PlanMemory memory() const override { return {2 * rows_, 0, spec_.training ? 2 * partials_ : 0}; }

  void forward(const ForwardPass& pass) override {
    const Context& here = context(device_);
    float* means = pass.saved.data();
    with_element(pass.output.type(), [&](auto element) {
      launch(here, "layer_norm", static_cast<unsigned>(cut_.rows), row_threads(cut_.columns),
             forward_kernel<decltype(element)>,
             {pass.inputs[0], pass.parameters[0].data(), pass.parameters[1].data(), pass.output, means, means + rows_},
             cut_.columns, spec_.epsilon);
    });
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    float *scale_sums = pass.scratch.data(), *shift_sums = scale_sums + partials_;
    with_element(pass.output_gradients[0].type(), [&](auto element) {
      using Element = decltype(element);
      const Backward<Element> terms{pass.inputs[0], pass.output_gradients[0], pass.saved.data(),
                                    pass.saved.data() + rows_};
      launch(here, "layer_norm_parameter_gradients", blocks_of(cut_), kThreads, parameter_gradients_kernel<Element>,
             terms, cut_, scale_sums, shift_sums);
      if (!spec_.input_gradient) return;
      launch(here, "layer_norm_input_gradient", static_cast<unsigned>(cut_.rows), row_threads(cut_.columns),
             input_gradient_kernel<Element>, terms, cut_.columns, pass.parameters[0].data(), pass.input_gradients[0]);
    });
    combine_columns(here, cut_, scale_sums, pass.parameter_gradients[0].data());
    combine_columns(here, cut_, shift_sums, pass.parameter_gradients[1].data());
  }

 private:
  Device device_;
  LayerNormSpec spec_;
  ColumnCut cut_;
  std::size_t rows_, partials_;
};

[[maybe_unused]] const bool registered =
    kernels::make_layer_norm_plan.add(DeviceType::kCuda, construct_plan<CudaLayerNorm>);

}  // namespace
}  // namespace dragonn::kernels::cuda

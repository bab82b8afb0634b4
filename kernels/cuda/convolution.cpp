// SPDX-License-Identifier: MIT
#include "kernels/convolution.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/cuda/columns.h"
#include "kernels/cuda/patch_convolution.h"
#include "kernels/cuda/runtime.h"
#include "kernels/swap_axes.h"

namespace dragonn::kernels::cuda {
namespace {

/// Owns a cuDNN descriptor.
template <class T, cudnnStatus_t (*kCreate)(T*), cudnnStatus_t (*kDestroy)(T)>
class Descriptor {
 public:
  Descriptor() { check(kCreate(&value_), "create a cuDNN descriptor"); }
  ~Descriptor() { kDestroy(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};
using TensorDescriptor = Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

/// What cuDNN is told of a convolution. Tensors are NHWC; the filter is KRSC, which is what NHWC wants.
struct Described {
  Described(const ConvolutionSpec& spec, DeviceMath math) {
    const auto number = [](std::int64_t value) { return static_cast<int>(value); };
    const auto tensor = [&](const TensorDescriptor& descriptor, std::int64_t channels, std::int64_t height,
                            std::int64_t width) {
      check(cudnnSetTensor4dDescriptor(descriptor.get(), CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, number(spec.batch),
                                       number(channels), number(height), number(width)),
            "cudnnSetTensor4dDescriptor");
    };
    tensor(input, spec.channels, spec.height, spec.width);
    tensor(output, spec.output_channels, spec.vertical.outputs(spec.height), spec.horizontal.outputs(spec.width));
    check(cudnnSetFilter4dDescriptor(filter.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, number(spec.output_channels),
                                     number(spec.channels / spec.groups), number(spec.vertical.kernel),
                                     number(spec.horizontal.kernel)),
          "cudnnSetFilter4dDescriptor");
    check(cudnnSetConvolution2dDescriptor(convolution.get(), number(spec.vertical.padding),
                                          number(spec.horizontal.padding), number(spec.vertical.stride),
                                          number(spec.horizontal.stride), 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    check(cudnnSetConvolutionGroupCount(convolution.get(), number(spec.groups)), "cudnnSetConvolutionGroupCount");
    // The default math lets cuDNN round factors to TF32.
    check(
        cudnnSetConvolutionMathType(convolution.get(), math == DeviceMath::kTf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH),
        "cudnnSetConvolutionMathType");
  }
  TensorDescriptor input, output;
  FilterDescriptor filter;
  ConvolutionDescriptor convolution;
};

/// An algorithm and the bytes that it works in.
template <class Algorithm>
struct Choice {
  Algorithm algorithm{};
  std::size_t bytes = 0;
};

constexpr std::size_t kMostWorkspaceBytes = std::size_t{1} << 30;
constexpr int kMostCandidates = 16;

/// The first of cuDNN's candidates, which its heuristics rank, that gives the same bits every time, multiplies as asked
/// and is content with the workspace; none if there is no such. Ranked, not timed: a choice that depends on timing
/// would let the bits of a run depend on it.
template <class Candidate, class Ask, class Workspace>
auto choose(DeviceMath math, const Ask& ask, const Workspace& workspace)
    -> std::optional<Choice<decltype(Candidate::algo)>> {
  std::array<Candidate, kMostCandidates> candidates{};
  int count = 0;
  const cudnnStatus_t status = ask(kMostCandidates, &count, candidates.data());
  if (status == CUDNN_STATUS_NOT_SUPPORTED) return std::nullopt;
  check(status, "ask cuDNN for algorithms of a convolution");
  for (int i = 0; i < count; ++i) {
    const Candidate& candidate = candidates[static_cast<std::size_t>(i)];
    const bool rounds =
        candidate.mathType == CUDNN_TENSOR_OP_MATH || candidate.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    if (candidate.status != CUDNN_STATUS_SUCCESS || candidate.determinism != CUDNN_DETERMINISTIC ||
        (rounds && math == DeviceMath::kFloat32))
      continue;
    std::size_t bytes = 0;
    if (workspace(candidate.algo, &bytes) == CUDNN_STATUS_SUCCESS && bytes <= kMostWorkspaceBytes)
      return Choice<decltype(Candidate::algo)>{candidate.algo, bytes};
  }
  return std::nullopt;
}

/// Weights are HWIO outside: [patch, outputs]. cuDNN's KRSC is the transpose, [outputs, patch].
class CudnnConvolution final : public WeightedPlan {
 public:
  /// Null if cuDNN has no algorithm that is good enough for one of the passes.
  static std::unique_ptr<WeightedPlan> make(const Device& device, const ConvolutionSpec& spec, DeviceMath math) {
    auto plan = std::make_unique<CudnnConvolution>(device, spec, math);
    return plan->choose_algorithms(math) ? std::move(plan) : nullptr;
  }

  CudnnConvolution(const Device& device, const ConvolutionSpec& spec, DeviceMath math)
      : device_(device),
        spec_(spec),
        described_(spec, math),
        patch_(static_cast<std::size_t>(spec.vertical.kernel * spec.horizontal.kernel * (spec.channels / spec.groups))),
        outputs_(static_cast<std::size_t>(spec.output_channels)),
        bias_cut_(static_cast<std::size_t>(spec.batch * spec.vertical.outputs(spec.height) *
                                           spec.horizontal.outputs(spec.width)),
                  outputs_) {}

  PlanMemory memory() const override {
    const std::size_t weights = aligned_floats(patch_ * outputs_);
    if (!spec_.training) return {0, weights + floats_for_bytes(forward_.bytes), 0};
    return {weights, floats_for_bytes(forward_.bytes),
            std::max({weights + floats_for_bytes(backward_weights_.bytes), floats_for_bytes(backward_data_.bytes),
                      spec_.bias ? aligned_floats(bias_cut_.partials()) : 0})};
  }

  void forward(const WeightedForward& arguments) override {
    Context& here = context(device_);
    const std::size_t size = patch_ * outputs_;
    // Of training backward reads this copy again.
    const View<float> weights = (spec_.training ? arguments.saved : arguments.scratch).subview(0, size);
    float* workspace = arguments.scratch.data() + (spec_.training ? 0 : aligned_floats(size));
    swap_axes(arguments.weights, patch_, outputs_, weights);
    check(cudnnConvolutionForward(here.dnn(), &kOne, described_.input.get(), arguments.input.data(),
                                  described_.filter.get(), weights.data(), described_.convolution.get(),
                                  forward_.algorithm, workspace, forward_.bytes, &kZero, described_.output.get(),
                                  arguments.output.data()),
          "cudnnConvolutionForward");
    if (!arguments.bias.empty())
      add_to_rows(here, arguments.bias.data(), outputs_, arguments.output.data(), arguments.output.size());
  }

  void backward(const WeightedBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    const float* gradient = arguments.output_gradient.data();
    const std::size_t size = patch_ * outputs_;
    const View<float> transposed = arguments.scratch.subview(0, size);
    check(cudnnConvolutionBackwardFilter(here.dnn(), &kOne, described_.input.get(), arguments.input.data(),
                                         described_.output.get(), gradient, described_.convolution.get(),
                                         backward_weights_.algorithm, arguments.scratch.data() + aligned_floats(size),
                                         backward_weights_.bytes, &kZero, described_.filter.get(), transposed.data()),
          "cudnnConvolutionBackwardFilter");
    swap_axes(transposed, outputs_, patch_, arguments.weights_gradient);
    if (!arguments.bias_gradient.empty())
      sum_columns(here, bias_cut_, gradient, arguments.scratch.data(), arguments.bias_gradient.data());
    if (!spec_.input_gradient) return;
    check(cudnnConvolutionBackwardData(here.dnn(), &kOne, described_.filter.get(), arguments.saved.data(),
                                       described_.output.get(), gradient, described_.convolution.get(),
                                       backward_data_.algorithm, arguments.scratch.data(), backward_data_.bytes, &kZero,
                                       described_.input.get(), arguments.input_gradient.data()),
          "cudnnConvolutionBackwardData");
  }

 private:
  static constexpr float kOne = 1, kZero = 0;

  bool choose_algorithms(DeviceMath math) {
    const cudnnHandle_t dnn = context(device_).dnn();
    const auto input = described_.input.get(), output = described_.output.get();
    const auto filter = described_.filter.get();
    const auto convolution = described_.convolution.get();
    return assign(forward_, choose<cudnnConvolutionFwdAlgoPerf_t>(
                                math,
                                [&](int most, int* count, auto* candidates) {
                                  return cudnnGetConvolutionForwardAlgorithm_v7(dnn, input, filter, convolution, output,
                                                                                most, count, candidates);
                                },
                                [&](auto algorithm, std::size_t* bytes) {
                                  return cudnnGetConvolutionForwardWorkspaceSize(dnn, input, filter, convolution,
                                                                                 output, algorithm, bytes);
                                })) &&
           (!spec_.training ||
            assign(backward_weights_, choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
                                          math,
                                          [&](int most, int* count, auto* candidates) {
                                            return cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                                                dnn, input, output, convolution, filter, most, count, candidates);
                                          },
                                          [&](auto algorithm, std::size_t* bytes) {
                                            return cudnnGetConvolutionBackwardFilterWorkspaceSize(
                                                dnn, input, output, convolution, filter, algorithm, bytes);
                                          }))) &&
           (!spec_.training || !spec_.input_gradient ||
            assign(backward_data_, choose<cudnnConvolutionBwdDataAlgoPerf_t>(
                                       math,
                                       [&](int most, int* count, auto* candidates) {
                                         return cudnnGetConvolutionBackwardDataAlgorithm_v7(
                                             dnn, filter, output, convolution, input, most, count, candidates);
                                       },
                                       [&](auto algorithm, std::size_t* bytes) {
                                         return cudnnGetConvolutionBackwardDataWorkspaceSize(
                                             dnn, filter, output, convolution, input, algorithm, bytes);
                                       })));
  }

  template <class Algorithm>
  static bool assign(Choice<Algorithm>& target, const std::optional<Choice<Algorithm>>& choice) {
    if (choice) target = *choice;
    return choice.has_value();
  }

  Device device_;
  ConvolutionSpec spec_;
  Described described_;
  std::size_t patch_, outputs_;
  ColumnCut bias_cut_;
  Choice<cudnnConvolutionFwdAlgo_t> forward_;
  Choice<cudnnConvolutionBwdFilterAlgo_t> backward_weights_;
  Choice<cudnnConvolutionBwdDataAlgo_t> backward_data_;
};

/// cuDNN pads both ends of an axis alike, and so knows no overhanging window.
bool overhangs(const Window& window, std::int64_t inputs) {
  return window.outputs(inputs) != (inputs + 2 * window.padding - window.kernel) / window.stride + 1;
}

std::unique_ptr<WeightedPlan> make(const Device& device, const ConvolutionSpec& spec) {
  const DeviceMath math = context(device).math();
  const bool fits_cudnn = math != DeviceMath::kBf16 &&  // whose tensors would have to be bf16, too
                          !overhangs(spec.vertical, spec.height) && !overhangs(spec.horizontal, spec.width);
  std::unique_ptr<WeightedPlan> plan = fits_cudnn ? CudnnConvolution::make(device, spec, math) : nullptr;
  return plan != nullptr ? std::move(plan) : make_patch_convolution(device, spec, math);
}

[[maybe_unused]] const bool registered = convolution_table().add(DeviceType::kCuda, make);

}  // namespace
}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
#include "kernels/nn/cuda/convolution_choice.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/nn/cuda/cudnn.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr int kMaxCandidates = 16;

int number(std::int64_t value) {
  return static_cast<int>(value);
}

/// The descriptors of the tensors of a convolution. They are NHWC; the filter is KRSC, which goes with NHWC.
struct ConvolutionTensors {
  explicit ConvolutionTensors(const ConvolutionSpec& spec) {
    const cudnnDataType_t type = spec.type == ElementType::kBf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const auto tensor = [&](const TensorDescriptor& descriptor, std::int64_t channels, std::int64_t height,
                            std::int64_t width) {
      check(cudnnSetTensor4dDescriptor(descriptor.get(), CUDNN_TENSOR_NHWC, type, number(spec.batch), number(channels),
                                       number(height), number(width)),
            "cudnnSetTensor4dDescriptor");
    };
    tensor(input, spec.channels, spec.height, spec.width);
    tensor(output, spec.output_channels, spec.output_height(), spec.output_width());
    check(cudnnSetFilter4dDescriptor(filter.get(), type, CUDNN_TENSOR_NHWC, number(spec.output_channels),
                                     number(spec.channels / spec.groups), number(spec.vertical.kernel),
                                     number(spec.horizontal.kernel)),
          "cudnnSetFilter4dDescriptor");
  }
  TensorDescriptor input, output;
  FilterDescriptor filter;
};

/// The descriptor of the windows and of the math type of one pass. Sums are float32.
class ConvolutionWindows {
 public:
  ConvolutionWindows(const ConvolutionSpec& spec, cudnnMathType_t math) {
    check(cudnnSetConvolution2dDescriptor(get(), number(spec.vertical.padding), number(spec.horizontal.padding),
                                          number(spec.vertical.stride), number(spec.horizontal.stride), 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    check(cudnnSetConvolutionGroupCount(get(), number(spec.groups)), "cudnnSetConvolutionGroupCount");
    set_math(math);
  }
  void set_math(cudnnMathType_t math) const {
    check(cudnnSetConvolutionMathType(get(), math), "cudnnSetConvolutionMathType");
  }
  cudnnConvolutionDescriptor_t get() const { return descriptor_.get(); }

 private:
  Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>
      descriptor_;
};

/// An algorithm, the math type that belongs to it, and the bytes of the workspace that both need together.
template <class Algorithm>
struct Choice {
  Algorithm algorithm{};
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::size_t bytes = 0;
};

/// The algorithms of the passes; those of passes that the plan does not have are empty.
struct ConvolutionChoices {
  Choice<cudnnConvolutionFwdAlgo_t> forward;
  Choice<cudnnConvolutionBwdFilterAlgo_t> backward_weights;
  Choice<cudnnConvolutionBwdDataAlgo_t> backward_data;
};

/// Returns whether cuDNN says that it has nothing for a shape. A lack in its installation is an error instead.
bool is_not_for_this_shape(cudnnStatus_t status) {
  constexpr std::array kOfInstallation{
      CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER, CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART,
      CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
      CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE};
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED &&
         std::ranges::find(kOfInstallation, status) == kOfInstallation.end();
}

/// Returns the math type to ask cuDNN for candidates with. Its default may round factors of float32 to TF32.
cudnnMathType_t asked_type(DeviceMath math) {
  constexpr cudnnMathType_t kTypes[] = {CUDNN_FMA_MATH, CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH};
  return kTypes[static_cast<std::size_t>(math)];  // in the order of DeviceMath
}

/// Returns the math type to run a candidate in, or nothing if that would round factors more than asked.
std::optional<cudnnMathType_t> type_to_run(cudnnMathType_t candidate, DeviceMath math) {
  const bool tensor_op = candidate == CUDNN_TENSOR_OP_MATH || candidate == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
  if (math == DeviceMath::kFloat32) return tensor_op ? std::nullopt : std::optional(CUDNN_FMA_MATH);
  // The conversion that this type allows is to float16, whose exponents end where gradients may begin.
  if (math == DeviceMath::kTf32 && candidate == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return std::nullopt;
  return candidate;
}

template <class Candidate, class Ask, class Workspace>
auto choose(const ConvolutionSpec& spec, const Ask& ask, const Workspace& workspace)
    -> std::optional<Choice<decltype(Candidate::algo)>> {
  const ConvolutionWindows windows(spec, asked_type(spec.math));
  std::array<Candidate, kMaxCandidates> candidates{};
  int count = 0;
  const cudnnStatus_t status = ask(windows.get(), &count, candidates.data());
  if (is_not_for_this_shape(status)) return std::nullopt;
  check(status, "ask cuDNN for algorithms of a convolution");
  for (int i = 0; i < count; ++i) {
    const Candidate& candidate = candidates[static_cast<std::size_t>(i)];
    const std::optional<cudnnMathType_t> type = type_to_run(candidate.mathType, spec.math);
    if (candidate.status != CUDNN_STATUS_SUCCESS || candidate.determinism != CUDNN_DETERMINISTIC || !type) continue;
    windows.set_math(*type);
    std::size_t bytes = 0;
    if (workspace(windows.get(), candidate.algo, &bytes) == CUDNN_STATUS_SUCCESS && bytes <= kMaxWorkspaceBytes)
      return Choice<decltype(Candidate::algo)>{candidate.algo, *type, bytes};
  }
  return std::nullopt;
}

auto choose_forward(cudnnHandle_t dnn, const ConvolutionSpec& spec, const ConvolutionTensors& of) {
  return choose<cudnnConvolutionFwdAlgoPerf_t>(
      spec,
      [&](auto windows, int* count, auto* candidates) {
        return cudnnGetConvolutionForwardAlgorithm_v7(dnn, of.input.get(), of.filter.get(), windows, of.output.get(),
                                                      kMaxCandidates, count, candidates);
      },
      [&](auto windows, auto algorithm, std::size_t* bytes) {
        return cudnnGetConvolutionForwardWorkspaceSize(dnn, of.input.get(), of.filter.get(), windows, of.output.get(),
                                                       algorithm, bytes);
      });
}

auto choose_backward_weights(cudnnHandle_t dnn, const ConvolutionSpec& spec, const ConvolutionTensors& of) {
  return choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
      spec,
      [&](auto windows, int* count, auto* candidates) {
        return cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn, of.input.get(), of.output.get(), windows,
                                                             of.filter.get(), kMaxCandidates, count, candidates);
      },
      [&](auto windows, auto algorithm, std::size_t* bytes) {
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(dnn, of.input.get(), of.output.get(), windows,
                                                              of.filter.get(), algorithm, bytes);
      });
}

auto choose_backward_data(cudnnHandle_t dnn, const ConvolutionSpec& spec, const ConvolutionTensors& of) {
  return choose<cudnnConvolutionBwdDataAlgoPerf_t>(
      spec,
      [&](auto windows, int* count, auto* candidates) {
        return cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn, of.filter.get(), of.output.get(), windows,
                                                           of.input.get(), kMaxCandidates, count, candidates);
      },
      [&](auto windows, auto algorithm, std::size_t* bytes) {
        return cudnnGetConvolutionBackwardDataWorkspaceSize(dnn, of.filter.get(), of.output.get(), windows,
                                                            of.input.get(), algorithm, bytes);
      });
}

std::optional<ConvolutionChoices> ask_cudnn(Context& here, const ConvolutionSpec& spec) {
  const ConvolutionTensors tensors(spec);
  ConvolutionChoices choices;
  const auto assign = [](auto& target, const auto& choice) {
    if (choice) target = *choice;
    return choice.has_value();
  };
  const bool complete =
      assign(choices.forward, choose_forward(here.dnn(), spec, tensors)) &&
      (!spec.training || assign(choices.backward_weights, choose_backward_weights(here.dnn(), spec, tensors))) &&
      (!spec.training || !spec.input_gradient ||
       assign(choices.backward_data, choose_backward_data(here.dnn(), spec, tensors)));
  return complete ? std::optional(choices) : std::nullopt;
}

constexpr float kOne = 1, kZero = 0;  // of any type of tensor cuDNN takes these as floats

const char* name_of(cudnnMathType_t math) {
  constexpr const char* kNames[] = {"default", "tensor_op", "tensor_op_conversion", "fma"};  // in the order of the enum
  return kNames[static_cast<std::size_t>(math)];
}

/// Describes a pass. @param names of the algorithms, in the order of cuDNN's enumeration.
template <class Algorithm>
PassDescription describe_pass(const char* pass, const Choice<Algorithm>& choice, std::span<const char* const> names) {
  const auto which = static_cast<std::size_t>(choice.algorithm);
  return {pass, which < names.size() ? names[which] : std::to_string(which), name_of(choice.math), choice.bytes};
}

std::vector<PassDescription> describe_passes(const ConvolutionSpec& spec, const ConvolutionChoices& choices) {
  constexpr std::array kForward{"implicit_gemm", "implicit_precomp_gemm", "gemm", "direct", "fft", "fft_tiling",
                                "winograd",      "winograd_nonfused"};
  constexpr std::array kWeights{"algorithm_0", "algorithm_1",       "fft",       "algorithm_3",
                                "winograd",    "winograd_nonfused", "fft_tiling"};
  constexpr std::array kData{"algorithm_0", "algorithm_1", "fft", "fft_tiling", "winograd", "winograd_nonfused"};
  std::vector<PassDescription> passes{describe_pass("forward", choices.forward, kForward)};
  if (spec.training) passes.push_back(describe_pass("backward_weights", choices.backward_weights, kWeights));
  if (spec.training && spec.input_gradient)
    passes.push_back(describe_pass("backward_data", choices.backward_data, kData));
  return passes;
}

class ChosenPasses final : public ConvolutionPasses {
 public:
  ChosenPasses(const Device& device, const ConvolutionSpec& spec, const ConvolutionChoices& choices)
      : device_(device),
        spec_(spec),
        tensors_(spec),
        choices_(choices),
        forward_(spec, choices.forward.math),
        backward_weights_(spec, choices.backward_weights.math),
        backward_data_(spec, choices.backward_data.math) {}

  bool adds_bias() const override { return false; }
  PassBytes workspace_bytes() const override {
    return {choices_.forward.bytes, choices_.backward_weights.bytes, choices_.backward_data.bytes};
  }
  std::vector<PassDescription> describe() const override { return describe_passes(spec_, choices_); }

  void forward(const ForwardOperands& of, void* workspace) const override {
    check(cudnnConvolutionForward(context(device_).dnn(), &kOne, tensors_.input.get(), of.input, tensors_.filter.get(),
                                  of.weights, forward_.get(), choices_.forward.algorithm, workspace,
                                  choices_.forward.bytes, &kZero, tensors_.output.get(), of.output),
          "cudnnConvolutionForward");
  }

  void backward_weights(const void* input, const void* output_gradient, void* weights_gradient,
                        void* workspace) const override {
    check(cudnnConvolutionBackwardFilter(
              context(device_).dnn(), &kOne, tensors_.input.get(), input, tensors_.output.get(), output_gradient,
              backward_weights_.get(), choices_.backward_weights.algorithm, workspace, choices_.backward_weights.bytes,
              &kZero, tensors_.filter.get(), weights_gradient),
          "cudnnConvolutionBackwardFilter");
  }

  void backward_data(const void* weights, const void* output_gradient, void* input_gradient,
                     void* workspace) const override {
    check(cudnnConvolutionBackwardData(context(device_).dnn(), &kOne, tensors_.filter.get(), weights,
                                       tensors_.output.get(), output_gradient, backward_data_.get(),
                                       choices_.backward_data.algorithm, workspace, choices_.backward_data.bytes,
                                       &kZero, tensors_.input.get(), input_gradient),
          "cudnnConvolutionBackwardData");
  }

 private:
  Device device_;
  ConvolutionSpec spec_;
  ConvolutionTensors tensors_;
  ConvolutionChoices choices_;
  ConvolutionWindows forward_, backward_weights_, backward_data_;
};

/// The answer of cuDNN for a shape.
struct Known {
  Device device;
  ConvolutionSpec spec;
  std::optional<ConvolutionChoices> choices;
};

}  // namespace

std::shared_ptr<const ConvolutionPasses> make_chosen_passes(const Device& device, const ConvolutionSpec& spec) {
  thread_local std::vector<Known> all;  // as the handle that choices are asked of
  auto place =
      std::ranges::find_if(all, [&](const Known& known) { return known.device == device && known.spec == spec; });
  if (place == all.end()) place = all.insert(all.end(), Known{device, spec, ask_cudnn(context(device), spec)});
  if (!place->choices) return nullptr;
  return std::make_shared<ChosenPasses>(device, spec, *place->choices);
}

}  // namespace dragonn::kernels::cuda

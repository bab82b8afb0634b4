// SPDX-License-Identifier: MIT
// The convolutions of cuDNN that this project makes: NHWC tensors, KRSC filters, straight from the definition, in
// double. Its graphs have a stand-in as a whole, kernels/nn/cuda/convolution_choice.h. So that the way around a refusal
// is tested, it has none for windows of five rows.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cudnn.h>
#include <vector>

#include "kernels/nn/cuda/convolution_choice.h"
#include "kernels/typed_view.h"
#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/stream.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using dragonn::kernels::Bf16;

/// The content of any descriptor: the type of a tensor and its sizes, in the order of NCHW or KCRS, and for a
/// convolution the windows' strides and padding.
struct Description {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int sizes[4] = {};
  int padding[2] = {}, stride[2] = {}, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;

  std::size_t count() const {
    std::size_t product = 1;
    for (const int size : sizes) product *= static_cast<std::size_t>(size);
    return product;
  }
};

template <class Handle>
Description& described(Handle handle) {
  return *reinterpret_cast<Description*>(handle);
}
template <class Handle>
cudnnStatus_t create(Handle* handle) {
  *handle = reinterpret_cast<Handle>(new Description);
  return CUDNN_STATUS_SUCCESS;
}
template <class Handle>
cudnnStatus_t destroy(Handle handle) {
  delete reinterpret_cast<Description*>(handle);
  return CUDNN_STATUS_SUCCESS;
}

/// A whole convolution; calls term(input, weight, output) with the places of every product.
struct Convolution {
  Description input, filter, window, output;

  template <class Term>
  void for_each(const Term& term) const {
    const int per_group = filter.sizes[0] / window.groups;
    for (int image = 0; image < input.sizes[0]; ++image)
      for (int y = 0; y < output.sizes[2]; ++y)
        for (int x = 0; x < output.sizes[3]; ++x)
          for (int r = 0; r < filter.sizes[2]; ++r)
            for (int s = 0; s < filter.sizes[3]; ++s) {
              const int row = y * window.stride[0] - window.padding[0] + r;
              const int column = x * window.stride[1] - window.padding[1] + s;
              if (row < 0 || column < 0 || row >= input.sizes[2] || column >= input.sizes[3]) continue;
              for (int k = 0; k < filter.sizes[0]; ++k) {
                std::size_t in = place(input, image, row, column, k / per_group * filter.sizes[1]);
                std::size_t weight = place(filter, k, r, s, 0);
                const std::size_t out = place(output, image, y, x, k);
                for (int c = 0; c < filter.sizes[1]; ++c) term(in++, weight++, out);
              }
            }
  }

 private:
  static std::size_t place(const Description& of, int first, int row, int column, int channel) {
    const int place = ((first * of.sizes[2] + row) * of.sizes[3] + column) * of.sizes[1] + channel;
    return static_cast<std::size_t>(place);
  }
};

/// A tensor or a filter.
struct Operand {
  Description description;
  const void* values;

  /// Returns the elements as float32: those of bf16 in `buffer`.
  const float* read(std::vector<float>& scratch) const {
    if (!is_bf16()) return checked<float>();
    const Bf16* const elements = checked<Bf16>();
    scratch.resize(description.count());
    std::transform(elements, elements + scratch.size(), scratch.begin(), dragonn::kernels::from_bf16);
    return scratch.data();
  }
  void write(const std::vector<double>& results) const {
    if (!is_bf16()) return round(results, const_cast<float*>(checked<float>()), [](float value) { return value; });
    round(results, const_cast<Bf16*>(checked<Bf16>()), dragonn::kernels::to_bf16);
  }

 private:
  bool is_bf16() const { return description.type == CUDNN_DATA_BFLOAT16; }
  template <class T>
  const T* checked() const {
    dragonn::emulation::check_access(values, description.count() * sizeof(T), "a convolution of cuDNN");
    return static_cast<const T*>(values);
  }
  /// Converts from sums of float32.
  template <class T, class Round>
  static void round(const std::vector<double>& results, T* target, const Round& to_type) {
    std::ranges::transform(results, target, [&](double result) { return to_type(static_cast<float>(result)); });
  }
};

struct Workspace {
  void* memory;
  std::size_t bytes;

  void spoil() const {  // as a library may
    dragonn::emulation::check_access(memory, bytes, "a convolution of cuDNN with its workspace");
    std::memset(memory, 0xFF, bytes);
  }
};

/// Sets the sums of every pixel to the bias of their channels.
void begin_with(const float* bias, std::size_t channels, std::vector<double>& sums) {
  dragonn::emulation::check_access(bias, channels * sizeof(float), "the bias of a convolution of cuDNN");
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<double>(bias[i % channels]);
}

/// Puts a pass on the stream of `handle`: term(sums, left, right, input, weight, output) adds a product of elements of
/// the two to its place among the sums that become `target`.
/// @param bias begins the sums of each channel; null if there is none.
template <class Term>
cudnnStatus_t enqueue(cudnnHandle_t handle, const Convolution& of, const Operand& left, const Operand& right,
                      const Operand& target, const Workspace& workspace, const Term& term,
                      const float* bias = nullptr) {
  dragonn::emulation::enqueue(handle->stream, [=] {
    static std::vector<double> sums;  // used by the holder of the device
    static std::vector<float> left_scratch, right_scratch;
    sums.assign(target.description.count(), 0.0);
    if (bias != nullptr) begin_with(bias, static_cast<std::size_t>(target.description.sizes[1]), sums);
    workspace.spoil();
    double* const to = sums.data();
    const float *const a = left.read(left_scratch), *const b = right.read(right_scratch);
    of.for_each([&](std::size_t in, std::size_t weight, std::size_t out) { term(to, a, b, in, weight, out); });
    target.write(sums);
  });
  return CUDNN_STATUS_SUCCESS;
}

double product(float a, float b) {
  return static_cast<double>(a) * b;
}

/// The products of the passes: forward of inputs and weights, and backward of gradients of outputs with either.
constexpr auto kForwardTerm = [](double* sums, const float* a, const float* b, std::size_t in, std::size_t weight,
                                 std::size_t out) { sums[out] += product(a[in], b[weight]); };
constexpr auto kDataTerm = [](double* sums, const float* a, const float* b, std::size_t in, std::size_t weight,
                              std::size_t out) { sums[in] += product(a[out], b[weight]); };
constexpr auto kWeightsTerm = [](double* sums, const float* a, const float* b, std::size_t in, std::size_t weight,
                                 std::size_t out) { sums[weight] += product(a[out], b[in]); };

/// The passes, whose algorithms belong to different math types.
enum class Pass { kForward, kBackward };

/// Offers two candidates. The first must not be taken: its bits may change from call to call. The second's math type is
/// not always that of the question, as with the library. Offers none for tensors of several types.
template <class Candidate>
cudnnStatus_t propose(Pass pass, const Description& input, const Description& filter, const Description& window,
                      const Description& output, int* count, Candidate* candidates) {
  if (input.type != filter.type || input.type != output.type) return CUDNN_STATUS_NOT_SUPPORTED;
  const bool tensor_op = pass == Pass::kForward && window.math != CUDNN_FMA_MATH;
  *count = 2;
  candidates[0] = candidates[1] = {};
  candidates[0].determinism = CUDNN_NON_DETERMINISTIC;
  candidates[1].determinism = CUDNN_DETERMINISTIC;
  candidates[1].algo = static_cast<decltype(candidates[1].algo)>(tensor_op || pass == Pass::kBackward ? 1 : 0);
  candidates[0].mathType = candidates[1].mathType = tensor_op ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH;
  if (pass == Pass::kBackward) candidates[1].mathType = CUDNN_FMA_MATH;
  return CUDNN_STATUS_SUCCESS;
}

/// Returns whether an algorithm runs in the math type of the descriptor: in that of its candidate.
template <class Algorithm>
bool fits(Pass pass, Algorithm algorithm, const Description& window) {
  const bool tensor_op = pass == Pass::kForward && static_cast<int>(algorithm) == 1;
  return window.math == (tensor_op ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
}

template <class Algorithm>
cudnnStatus_t some_workspace(Pass pass, Algorithm algorithm, cudnnConvolutionDescriptor_t window, std::size_t* bytes) {
  *bytes = 200;
  return fits(pass, algorithm, described(window)) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t) {
  return "a status of the emulation";
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) {
  return create(descriptor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* descriptor) {
  return create(descriptor);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* descriptor) {
  return create(descriptor);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) {
  return destroy(descriptor);
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t, cudnnDataType_t type,
                                         int images, int channels, int height, int width) {
  described(descriptor) = {.type = type, .sizes = {images, channels, height, width}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type, cudnnTensorFormat_t,
                                         int outputs, int channels, int height, int width) {
  described(descriptor) = {.type = type, .sizes = {outputs, channels, height, width}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int padding_y, int padding_x,
                                              int stride_y, int stride_x, int, int, cudnnConvolutionMode_t,
                                              cudnnDataType_t) {
  described(descriptor) = {.sizes = {}, .padding = {padding_y, padding_x}, .stride = {stride_y, stride_x}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups) {
  described(descriptor).groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor, cudnnMathType_t math) {
  described(descriptor).math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t input,
                                                     const cudnnFilterDescriptor_t filter,
                                                     const cudnnConvolutionDescriptor_t window,
                                                     const cudnnTensorDescriptor_t output, const int, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* candidates) {
  return propose(Pass::kForward, described(input), described(filter), described(window), described(output), count,
                 candidates);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, const cudnnFilterDescriptor_t filter,
                                                          const cudnnTensorDescriptor_t output,
                                                          const cudnnConvolutionDescriptor_t window,
                                                          const cudnnTensorDescriptor_t input, const int, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* candidates) {
  return propose(Pass::kBackward, described(input), described(filter), described(window), described(output), count,
                 candidates);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t input,
                                                            const cudnnTensorDescriptor_t output,
                                                            const cudnnConvolutionDescriptor_t window,
                                                            const cudnnFilterDescriptor_t filter, const int, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* candidates) {
  return propose(Pass::kBackward, described(input), described(filter), described(window), described(output), count,
                 candidates);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                      const cudnnFilterDescriptor_t,
                                                      const cudnnConvolutionDescriptor_t window,
                                                      const cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  return some_workspace(Pass::kForward, algorithm, window, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, const cudnnFilterDescriptor_t,
                                                           const cudnnTensorDescriptor_t,
                                                           const cudnnConvolutionDescriptor_t window,
                                                           const cudnnTensorDescriptor_t,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  return some_workspace(Pass::kBackward, algorithm, window, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                             const cudnnTensorDescriptor_t,
                                                             const cudnnConvolutionDescriptor_t window,
                                                             const cudnnFilterDescriptor_t,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                                             std::size_t* bytes) {
  return some_workspace(Pass::kBackward, algorithm, window, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t input,
                                      const void* x, const cudnnFilterDescriptor_t filter, const void* w,
                                      const cudnnConvolutionDescriptor_t window, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t bytes, const void*,
                                      const cudnnTensorDescriptor_t output, void* y) {
  if (!fits(Pass::kForward, algorithm, described(window))) return CUDNN_STATUS_BAD_PARAM;
  const Convolution convolution{described(input), described(filter), described(window), described(output)};
  return enqueue(handle, convolution, {convolution.input, x}, {convolution.filter, w}, {convolution.output, y},
                 {workspace, bytes}, kForwardTerm);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void*, const cudnnFilterDescriptor_t filter,
                                           const void* w, const cudnnTensorDescriptor_t output, const void* dy,
                                           const cudnnConvolutionDescriptor_t window,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, std::size_t bytes,
                                           const void*, const cudnnTensorDescriptor_t input, void* dx) {
  if (!fits(Pass::kBackward, algorithm, described(window))) return CUDNN_STATUS_BAD_PARAM;
  const Convolution convolution{described(input), described(filter), described(window), described(output)};
  return enqueue(handle, convolution, {convolution.output, dy}, {convolution.filter, w}, {convolution.input, dx},
                 {workspace, bytes}, kDataTerm);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t input,
                                             const void* x, const cudnnTensorDescriptor_t output, const void* dy,
                                             const cudnnConvolutionDescriptor_t window,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t bytes, const void*, const cudnnFilterDescriptor_t filter,
                                             void* dw) {
  if (!fits(Pass::kBackward, algorithm, described(window))) return CUDNN_STATUS_BAD_PARAM;
  const Convolution convolution{described(input), described(filter), described(window), described(output)};
  return enqueue(handle, convolution, {convolution.output, dy}, {convolution.input, x}, {convolution.filter, dw},
                 {workspace, bytes}, kWeightsTerm);
}
}

namespace dragonn::kernels::cuda {
namespace {

constexpr std::size_t kGraphBytes = 300;

class EmulatedGraphs final : public ConvolutionPasses {
 public:
  EmulatedGraphs(const Device& device, const ConvolutionSpec& spec) : device_(device), spec_(spec) {
    const auto number = [](std::int64_t value) { return static_cast<int>(value); };
    const Window &vertical = spec.vertical, &horizontal = spec.horizontal;
    of_.input = tensor(spec.channels, spec.height, spec.width);
    of_.output = tensor(spec.output_channels, vertical.outputs(spec.height), horizontal.outputs(spec.width));
    of_.filter = tensor(spec.channels, vertical.kernel, horizontal.kernel);
    of_.filter.sizes[0] = number(spec.output_channels);
    of_.window = {.sizes = {},
                  .padding = {number(vertical.padding), number(horizontal.padding)},
                  .stride = {number(vertical.stride), number(horizontal.stride)}};
  }

  bool adds_bias() const override { return true; }
  PassBytes workspace_bytes() const override {
    return {kGraphBytes, spec_.training ? kGraphBytes : 0, spec_.training && spec_.input_gradient ? kGraphBytes : 0};
  }
  std::vector<PassDescription> describe() const override {
    std::vector<PassDescription> passes{{"forward", "graph_engine_0", "tensor_op", kGraphBytes}};
    if (spec_.training) passes.push_back({"backward_weights", "graph_engine_0", "tensor_op", kGraphBytes});
    if (spec_.training && spec_.input_gradient)
      passes.push_back({"backward_data", "graph_engine_0", "tensor_op", kGraphBytes});
    return passes;
  }

  void forward(const ForwardOperands& arguments, void* workspace) const override {
    enqueue(dnn(), of_, {of_.input, arguments.input}, {of_.filter, arguments.weights}, {of_.output, arguments.output},
            {workspace, kGraphBytes}, kForwardTerm, arguments.bias);
  }
  void backward_weights(const void* input, const void* output_gradient, void* weights_gradient,
                        void* workspace) const override {
    enqueue(dnn(), of_, {of_.output, output_gradient}, {of_.input, input}, {of_.filter, weights_gradient},
            {workspace, kGraphBytes}, kWeightsTerm);
  }
  void backward_data(const void* weights, const void* output_gradient, void* input_gradient,
                     void* workspace) const override {
    enqueue(dnn(), of_, {of_.output, output_gradient}, {of_.filter, weights}, {of_.input, input_gradient},
            {workspace, kGraphBytes}, kDataTerm);
  }

 private:
  cudnnHandle_t dnn() const { return context(device_).dnn(); }
  Description tensor(std::int64_t channels, std::int64_t height, std::int64_t width) const {
    return {.type = CUDNN_DATA_BFLOAT16,
            .sizes = {static_cast<int>(spec_.batch), static_cast<int>(channels), static_cast<int>(height),
                      static_cast<int>(width)}};
  }

  Device device_;
  ConvolutionSpec spec_;
  Convolution of_;
};

}  // namespace

std::shared_ptr<const ConvolutionPasses> make_convolution_graphs(const Device& device, const ConvolutionSpec& spec,
                                                                 std::string& obstacle) {
  if (spec.vertical.kernel != 5) return std::make_shared<EmulatedGraphs>(device, spec);
  obstacle = "the emulation has no graphs of five rows";
  return nullptr;
}

}  // namespace dragonn::kernels::cuda

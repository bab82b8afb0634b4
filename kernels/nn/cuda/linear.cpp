// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <cublasLt.h>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/cuda/gemm.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/matrix_product.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr std::size_t kMaxWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA recommends from Hopper on

/// Returns cuBLAS's handle, which is one of cuBLASLt, too.
cublasLtHandle_t handle(Context& here) {
  return reinterpret_cast<cublasLtHandle_t>(here.blas());
}

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

void describe(cublasLtMatrixLayout_t* layout, cudaDataType type, std::int64_t rows, std::int64_t columns) {
  check(cublasLtMatrixLayoutCreate(layout, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                   rows),
        "cublasLtMatrixLayoutCreate");
}

/// Owns a descriptor of cuBLASLt.
template <class T, cublasStatus_t (*kDestroy)(T)>
class LtDescriptor {
 public:
  LtDescriptor() = default;
  ~LtDescriptor() {
    if (value_ != nullptr) kDestroy(value_);
  }
  LtDescriptor(const LtDescriptor&) = delete;
  LtDescriptor& operator=(const LtDescriptor&) = delete;
  T get() const { return value_; }
  T* place() { return &value_; }

 private:
  T value_ = nullptr;
};

/// A product result = left * right as cuBLAS sees it: column-major and contiguous. The factors are bf16; each is stored
/// as `rows` x `columns` here, and may be transposed before it is multiplied.
struct LtSpec {
  struct Factor {
    std::int64_t rows, columns;
    bool transposed;
  };
  Factor left, right;
  std::int64_t rows, columns;  ///< of the result
  cudaDataType result_type;    ///< of the result and the vector
  cublasLtEpilogue_t epilogue;
};

/// Returns the product of a linear layer's output, bf16 [batch, outputs] = input [batch, inputs] * weights [outputs,
/// inputs]^T + the vector [outputs]. The factors are the weights and the input. cuBLAS is column-major: it sees the
/// transposes of all matrices, output^T = weights * input^T, and the bias along the columns of output^T.
LtSpec output_product(std::int64_t batch, std::int64_t inputs, std::int64_t outputs) {
  return {.left = {inputs, outputs, true},
          .right = {inputs, batch, false},
          .rows = outputs,
          .columns = batch,
          .result_type = CUDA_R_16BF,
          .epilogue = CUBLASLT_EPILOGUE_BIAS};
}

/// Returns the product of the gradients of its weights, float32 [outputs, inputs] = gradient [batch, outputs]^T *
/// input, and of its bias, the vector, which are the sums of the gradient's columns. The factors are the input and the
/// gradient: weights_gradient^T = input^T * gradient, and the sums of the right factor over the batch.
LtSpec weights_gradient_product(std::int64_t batch, std::int64_t inputs, std::int64_t outputs) {
  return {.left = {inputs, batch, false},
          .right = {outputs, batch, true},
          .rows = inputs,
          .columns = outputs,
          .result_type = CUDA_R_32F,
          .epilogue = CUBLASLT_EPILOGUE_BGRADB};
}

/// A product of one shape. All matrices begin at multiples of 16 bytes; sums are float32, and results are rounded once.
/// The algorithm is the first of cuBLAS's heuristics, so equal shapes have equal bits on one type of GPU.
///
/// cuBLASLt has epilogues for activations, too. They are not used: its GELU is the approximation by tanh, which is
/// another function than the layer's, and ReLU stands behind a linear layer in small networks only.
class LtProduct {
 public:
  static constexpr std::uint32_t kAlignmentBytes = 16;  ///< of all matrices and the vector; cuBLAS would expect 256
  static constexpr std::uintptr_t kWorkspaceAlignmentBytes = 256;  ///< which cuBLASLt refuses to do without

  /// @throws DeviceError if cuBLAS fails.
  LtProduct(const Device& device, const LtSpec& spec) : device_(device) {
    const auto operation_of = [](const LtSpec::Factor& factor) {
      return factor.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    check(cublasLtMatmulDescCreate(product_.place(), CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSA, operation_of(spec.left));
    set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSB, operation_of(spec.right));
    set(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, spec.epilogue);
    set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, spec.result_type);
    describe(left_.place(), CUDA_R_16BF, spec.left.rows, spec.left.columns);
    describe(right_.place(), CUDA_R_16BF, spec.right.rows, spec.right.columns);
    describe(result_.place(), spec.result_type, spec.rows, spec.columns);
    LtDescriptor<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
    check(cublasLtMatmulPreferenceCreate(preference.place()), "cublasLtMatmulPreferenceCreate");
    set(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspaceBytes);
    for (const auto alignment :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(preference.get(), alignment, kAlignmentBytes);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle(context(device)), product_.get(), left_.get(), right_.get(),
                                       result_.get(), result_.get(), preference.get(), 1, &found, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return;
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (found.state != CUBLAS_STATUS_SUCCESS) return;
    algorithm_ = found.algo;
    workspace_bytes_ = found.workspaceSize;
  }

  /// Returns whether cuBLAS has an algorithm for the shape. Without one run() must not be called.
  bool exists() const { return algorithm_.has_value(); }
  /// Returns the bytes of run()'s workspace.
  std::size_t workspace_bytes() const {
    return workspace_bytes_ == 0 ? 0 : workspace_bytes_ + kWorkspaceAlignmentBytes;
  }
  /// Multiplies on the stream of the calling thread. @param vector read or written, as the product says.
  void run(const void* left, const void* right, const void* vector, void* result, void* workspace) const {
    Context& here = context(device_);
    set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle(here), product_.get(), &one, left, left_.get(), right, right_.get(), &zero, result,
                         result_.get(), result, result_.get(), &*algorithm_, aligned(workspace), workspace_bytes_,
                         here.stream()),
          "cublasLtMatmul");
  }

 private:
  static void* aligned(void* workspace) {
    const auto begin = reinterpret_cast<std::uintptr_t>(workspace) + kWorkspaceAlignmentBytes - 1;
    return reinterpret_cast<void*>(begin / kWorkspaceAlignmentBytes * kWorkspaceAlignmentBytes);
  }

  using Layout = LtDescriptor<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  Device device_;
  LtDescriptor<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product_;
  Layout left_, right_, result_;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;
  std::size_t workspace_bytes_ = 0;
};

/// Returns whether memory begins where cuBLASLt expects it. Gradients lie one after the other in their arena, without
/// padding.
bool is_aligned(const float* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % LtProduct::kAlignmentBytes == 0;
}

class CudaLinear final : public Plan {
 public:
  CudaLinear(const Device& device, const LinearSpec& spec)
      : device_(context(device).device()),  // which refuses a GPU that is not there
        spec_(spec),
        bias_cut_(static_cast<std::size_t>(spec.batch), static_cast<std::size_t>(spec.outputs)) {
    if (!rounds_weights() || !spec.bias) return;
    biased_ = product(output_product(spec.batch, spec.inputs, spec.outputs));
    if (spec.training) gradients_ = product(weights_gradient_product(spec.batch, spec.inputs, spec.outputs));
  }

  PlanMemory memory() const override {
    const auto workspace = [](const auto& product) {
      return product == nullptr ? 0 : floats_for_bytes(product->workspace_bytes());
    };
    if (!spec_.training) return {0, copy_floats() + workspace(biased_), 0};
    const std::size_t sums = spec_.bias ? aligned_floats(bias_cut_.partials()) + bias_cut_.columns : 0;
    return {copy_floats(), workspace(biased_), std::max(sums, workspace(gradients_))};
  }

  void forward(const ForwardPass& pass) override {
    Context& here = context(device_);
    // Backward of a training plan reads this copy again.
    const View<float> copy = spec_.training ? pass.saved : pass.scratch;
    if (rounds_weights())
      convert(pass.parameters[0], TypedView<float>(copy.data(), weight_count(), spec_.type, device_));
    if (biased_ != nullptr) return multiply_with_bias(pass, copy);
    multiply(here, spec_.math,
             {.rows = spec_.batch,
              .columns = spec_.outputs,
              .inner = spec_.inputs,
              .a = {pass.inputs[0].raw(), spec_.inputs},
              .b = {rounds_weights() ? copy.data() : pass.parameters[0].data(), spec_.inputs, true},
              .type = spec_.type,
              .result = pass.output.raw(),
              .result_type = spec_.type,
              .stride = spec_.outputs});
    if (!bias_of(pass.parameters).empty()) add_to_rows(here, bias_of(pass.parameters), pass.output);
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    const TypedView<const float> gradient = pass.output_gradients[0];
    differentiate_parameters(here, pass);
    if (!spec_.input_gradient) return;
    multiply(here, spec_.math,
             {.rows = spec_.batch,
              .columns = spec_.inputs,
              .inner = spec_.outputs,
              .a = {gradient.raw(), spec_.outputs},
              .b = {rounds_weights() ? pass.saved.data() : pass.parameters[0].data(), spec_.inputs},
              .type = spec_.type,
              .result = pass.input_gradients[0].raw(),
              .result_type = spec_.type,
              .stride = spec_.inputs});
  }

 private:
  /// Makes a product; null if cuBLAS has none for the shape.
  std::unique_ptr<LtProduct> product(const LtSpec& spec) const {
    auto made = std::make_unique<LtProduct>(device_, spec);
    return made->exists() ? std::move(made) : nullptr;
  }

  void differentiate_parameters(Context& here, const BackwardPass& pass) const {
    const TypedView<const float> gradient = pass.output_gradients[0];
    float* const weights_gradient = pass.parameter_gradients[0].data();
    const bool adds = pass.adds_parameter_gradients;
    if (!adds && gradients_ != nullptr && is_aligned(weights_gradient) &&
        is_aligned(bias_of(pass.parameter_gradients).data()))
      return gradients_->run(pass.inputs[0].raw(), gradient.raw(), bias_of(pass.parameter_gradients).data(),
                             weights_gradient, pass.scratch.data());
    multiply(here, spec_.math,
             {.rows = spec_.outputs,
              .columns = spec_.inputs,
              .inner = spec_.batch,
              .a = {gradient.raw(), spec_.outputs, true},
              .b = {pass.inputs[0].raw(), spec_.inputs},
              .type = spec_.type,
              .result = weights_gradient,
              .stride = spec_.inputs,
              .keep = adds ? 1.0f : 0.0f});
    const View<float> bias_gradient = bias_of(pass.parameter_gradients);
    if (bias_gradient.empty()) return;
    const View<float> sums = pass.scratch.subview(aligned_floats(bias_cut_.partials()), bias_cut_.columns);
    sum_columns(here, bias_cut_, gradient, pass.scratch.data(), adds ? sums.data() : bias_gradient.data());
    if (adds) add(bias_gradient, sums, bias_gradient);
  }

  /// Returns whether products read a copy of the weights in bf16.
  bool rounds_weights() const { return spec_.type == ElementType::kBf16; }
  std::size_t weight_count() const { return static_cast<std::size_t>(spec_.inputs * spec_.outputs); }
  std::size_t weight_floats() const { return floats_for_bytes(weight_count() * sizeof(Bf16)); }
  /// Returns the floats of the copies of weights and bias in bf16.
  std::size_t copy_floats() const {
    if (!rounds_weights()) return 0;
    return weight_floats() + (biased_ == nullptr ? 0 : floats_for_bytes(bias_cut_.columns * sizeof(Bf16)));
  }

  /// Computes the output in one kernel. @param copy of the weights, with room for one of the bias behind it.
  void multiply_with_bias(const ForwardPass& pass, View<float> copy) const {
    const TypedView<float> bias(copy.data() + weight_floats(), bias_cut_.columns, spec_.type, device_);
    convert(bias_of(pass.parameters), bias);
    float* workspace = pass.scratch.data() + (spec_.training ? 0 : copy_floats());
    biased_->run(copy.data(), pass.inputs[0].raw(), bias.raw(), pass.output.raw(), workspace);
  }

  Device device_;
  LinearSpec spec_;
  ColumnCut bias_cut_;
  std::unique_ptr<LtProduct> biased_, gradients_;  // of bf16 with a bias, where cuBLAS has them
};

/// Multiplies by plain weights, which cuBLAS takes, or in bf16 by a rounded copy: a recurrent step is as fast as it
/// reads its weights. The input, which is small, is rounded in every product.
class CudaProduct final : public PackedProduct {
 public:
  CudaProduct(const Device& device, const PackedProductSpec& spec) : device_(device), spec_(spec) {}

  std::size_t packed_floats() const override { return rounds() ? floats_for_bytes(weights() * sizeof(Bf16)) : 0; }
  std::size_t scratch_floats() const override { return rounds() ? floats_for_bytes(inputs() * sizeof(Bf16)) : 0; }
  View<const float> pack(View<const float> weights, View<float> packed, View<float>) override {
    if (!rounds()) return weights;
    convert(weights, rounded(packed, this->weights()));
    return packed;
  }
  void run(View<const float> input, View<const float> weights, View<float> output, View<float> scratch) override {
    if (rounds()) convert(input, rounded(scratch, inputs()));
    multiply(context(device_), spec_.math,
             {.rows = spec_.rows,
              .columns = spec_.outputs,
              .inner = spec_.inner,
              .a = {rounds() ? scratch.data() : input.data(), spec_.inner},
              .b = {weights.data(), spec_.transposed ? spec_.inner : spec_.outputs, spec_.transposed},
              .type = rounds() ? ElementType::kBf16 : ElementType::kFloat32,
              .result = output.data(),
              .stride = spec_.outputs});
  }

 private:
  bool rounds() const { return spec_.math == DeviceMath::kBf16; }
  std::size_t weights() const { return static_cast<std::size_t>(spec_.inner * spec_.outputs); }
  std::size_t inputs() const { return static_cast<std::size_t>(spec_.rows * spec_.inner); }
  TypedView<float> rounded(View<float> memory, std::size_t size) const {
    return {memory.data(), size, ElementType::kBf16, device_};
  }

  Device device_;
  PackedProductSpec spec_;
};

[[maybe_unused]] const bool registered =
    kernels::make_linear_plan.add(DeviceType::kCuda, construct_plan<CudaLinear>) &&
    kernels::make_packed_product.add(DeviceType::kCuda, construct_plan<CudaProduct>);

}  // namespace
}  // namespace dragonn::kernels::cuda

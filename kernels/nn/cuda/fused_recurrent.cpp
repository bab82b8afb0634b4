// SPDX-License-Identifier: MIT
// Recurrent layers by cuDNN's calls for them; the emulation has none.
#include "kernels/nn/cuda/fused_recurrent.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "kernels/nn/cuda/cudnn.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/recurrent_steps.h"

namespace dragonn::kernels::cuda {
namespace {

using RnnDescriptor = Descriptor<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using SequenceDescriptor =
    Descriptor<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor>;
using DropoutDescriptor =
    Descriptor<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor>;

/// Returns where the next array of a pass begins in its workspace, and adds its bytes to the end. cuDNN's own
/// allocations would begin on such multiples.
std::size_t place(std::size_t& end, std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return std::exchange(end, end + (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

/// Rows of a parameter that are contiguous in the caller's memory and in cuDNN's.
struct Rows {
  std::size_t parameter;  ///< input weights, recurrent weights, input bias, recurrent bias
  std::size_t first;      ///< float of the parameter
  std::size_t place;      ///< byte in cuDNN's weights
  std::size_t count;      ///< floats
};

template <class T>
std::array<T*, 4> parameters_of(const RecurrentWeights<T>& weights) {
  return {weights.input.data(), weights.recurrent.data(), weights.input_bias.data(), weights.recurrent_bias.data()};
}

class CudnnRecurrent final : public FusedRecurrent {
 public:
  /// @throws Refusal if cuDNN does not have the layer.
  CudnnRecurrent(const Device& device, const RecurrentSpec& spec) : device_(device), spec_(spec), lengths_(0, device) {
    describe_layer();
    describe_data();
    ask_sizes();
    find_rows();
    place_lengths();
    weights_ = place(forward_bytes_, weight_bytes_);
    work_ = place(forward_bytes_, work_bytes_);
    backward_bytes_ = forward_bytes_;
    gradients_ = place(backward_bytes_, weight_bytes_);
    // cuDNN computes the input's gradient whether anybody wants it or not.
    unwanted_ =
        place(backward_bytes_, spec.input_gradient ? 0 : sizeof(float) * size(spec.steps * spec.batch * spec.inputs));
  }

  std::size_t saved_floats() const override { return reserve_at() + floats_for_bytes(reserve_bytes_); }
  std::size_t forward_bytes() const override { return forward_bytes_; }
  std::size_t backward_bytes() const override { return spec_.training ? backward_bytes_ : 0; }

  std::string forward(const RecurrentForward& of) override {
    Context& here = context(device_);
    const auto start = [&](std::size_t at, std::size_t which) {
      const View<float> target = of.saved.subview(at, row());
      of.states.empty() ? fill(0, target) : kernels::copy(of.states[which], target);
    };
    start(start_at(), 0);
    if (lstm()) start(cell_at(), 1);
    const auto last = [&](std::size_t which) { return which < of.states.size() ? of.states[which].data() : nullptr; };
    float* const saved = of.saved.data();
    std::byte* const workspace = reinterpret_cast<std::byte*>(of.scratch.data());
    gather(here, of.weights, workspace + weights_);
    const cudnnStatus_t status =
        cudnnRNNForward(here.dnn(), layer_.get(), mode(), lengths_.data(), input_.get(), of.input.data(), output_.get(),
                        saved + hidden_at(), state_.get(), saved + start_at(), last(0), state_.get(), cell_in(saved),
                        lstm() ? last(1) : nullptr, weight_bytes_, workspace + weights_, work_bytes_, workspace + work_,
                        reserve_bytes_, reserve_bytes_ == 0 ? nullptr : saved + reserve_at());
    return status == CUDNN_STATUS_SUCCESS ? std::string() : reason_of(status, "run a recurrent layer");
  }

  void backward(const RecurrentBackward& of) override {
    Context& here = context(device_);
    float* const saved = const_cast<float*>(of.saved.data());
    std::byte* const workspace = reinterpret_cast<std::byte*>(of.scratch.data());
    gather(here, of.weights, workspace + weights_);
    float* const input_gradient =
        spec_.input_gradient ? of.input_gradient.data() : reinterpret_cast<float*>(workspace + unwanted_);
    // Nothing wants the gradient of the state that the pass started from, nor gives one of the state that it ended
    // with.
    check(cudnnRNNBackwardData_v8(here.dnn(), layer_.get(), lengths_.data(), output_.get(), saved + hidden_at(),
                                  of.output_gradient.data(), input_.get(), input_gradient, state_.get(),
                                  saved + start_at(), nullptr, nullptr, state_.get(), cell_in(saved), nullptr, nullptr,
                                  weight_bytes_, workspace + weights_, work_bytes_, workspace + work_, reserve_bytes_,
                                  saved + reserve_at()),
          "cudnnRNNBackwardData_v8");
    // cuDNN adds to the gradients of weights.
    check(cudaMemsetAsync(workspace + gradients_, 0, weight_bytes_, here.stream()), "cudaMemsetAsync");
    check(cudnnRNNBackwardWeights_v8(here.dnn(), layer_.get(), CUDNN_WGRAD_MODE_ADD, lengths_.data(), input_.get(),
                                     of.input.data(), state_.get(), saved + start_at(), output_.get(),
                                     saved + hidden_at(), weight_bytes_, workspace + gradients_, work_bytes_,
                                     workspace + work_, reserve_bytes_, saved + reserve_at()),
          "cudnnRNNBackwardWeights_v8");
    scatter(here, workspace + gradients_, of.gradients);
  }

 private:
  static std::size_t size(std::int64_t extent) { return static_cast<std::size_t>(extent); }
  static int extent(std::int64_t value) {
    if (value > std::numeric_limits<int>::max()) throw Refusal("cuDNN's extents of recurrent layers have 31 bits");
    return static_cast<int>(value);
  }
  bool lstm() const { return spec_.cell == Cell::kLstm; }
  std::size_t row() const { return size(spec_.batch * spec_.hidden); }

  // The places in saved memory.
  std::size_t hidden_at() const { return kernels::detail::saved_before_hidden(spec_); }
  std::size_t start_at() const { return hidden_at() - row(); }
  std::size_t cell_at() const { return aligned_floats(hidden_at() + size(spec_.steps) * row()); }
  std::size_t reserve_at() const { return cell_at() + (lstm() ? aligned_floats(row()) : 0); }
  const float* cell_in(const float* saved) const { return lstm() ? saved + cell_at() : nullptr; }

  cudnnForwardMode_t mode() const { return spec_.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE; }

  /// The standard algorithm: a product per step. The default math type multiplies float32 in TF32.
  void describe_layer() {
    Context& here = context(device_);
    const cudnnMathType_t math = spec_.math == DeviceMath::kFloat32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
    accept(cudnnSetDropoutDescriptor(no_dropout_.get(), here.dnn(), 0, nullptr, 0, 0), "describe no dropout");
    accept(cudnnSetRNNDescriptor_v8(layer_.get(), CUDNN_RNN_ALGO_STANDARD, lstm() ? CUDNN_LSTM : CUDNN_GRU,
                                    CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT,
                                    CUDNN_DATA_FLOAT, math, extent(spec_.inputs), extent(spec_.hidden),
                                    extent(spec_.hidden), 1, no_dropout_.get(), CUDNN_RNN_PADDED_IO_DISABLED),
           "describe a recurrent layer");
  }

  /// Sequences of one length lie packed one step after the other, as they do here.
  void describe_data() {
    const std::vector<int> lengths(size(spec_.batch), extent(spec_.steps));
    const auto describe = [&](const SequenceDescriptor& sequence, std::int64_t width) {
      accept(
          cudnnSetRNNDataDescriptor(sequence.get(), CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                    extent(spec_.steps), extent(spec_.batch), extent(width), lengths.data(), nullptr),
          "describe a sequence");
    };
    describe(input_, spec_.inputs);
    describe(output_, spec_.hidden);
    const std::array extents{1, extent(spec_.batch), extent(spec_.hidden)};
    const std::array strides{extent(spec_.batch * spec_.hidden), extent(spec_.hidden), 1};
    accept(cudnnSetTensorNdDescriptor(state_.get(), CUDNN_DATA_FLOAT, 3, extents.data(), strides.data()),
           "describe a state");
  }

  void ask_sizes() {
    const cudnnHandle_t dnn = context(device_).dnn();
    accept(cudnnGetRNNWeightSpaceSize(dnn, layer_.get(), &weight_bytes_), "ask for the size of weights");
    accept(cudnnGetRNNTempSpaceSizes(dnn, layer_.get(), mode(), input_.get(), &work_bytes_, &reserve_bytes_),
           "ask for a workspace");
  }

  /// Finds where cuDNN wants the gates' weights. Its numbers of them are those of the gates here, i, f, g, o and r, z,
  /// n, first for the input and then for the state.
  void find_rows() {
    const int gates = static_cast<int>(gates_of(spec_.cell));
    for (int which = 0; which < 2 * gates; ++which) {
      const std::size_t parameter = which < gates ? 0 : 1, gate = static_cast<std::size_t>(which % gates);
      const std::size_t columns = size(parameter == 0 ? spec_.inputs : spec_.hidden), hidden = size(spec_.hidden);
      // An address that nobody reads: cuDNN answers with addresses in its neighbourhood. Null would mean "none".
      const auto base = std::uintptr_t{1} << 20;
      const TensorDescriptor matrix, bias;
      void *matrix_at = nullptr, *bias_at = nullptr;
      accept(cudnnGetRNNWeightParams(context(device_).dnn(), layer_.get(), 0, weight_bytes_,
                                     reinterpret_cast<const void*>(base), which, matrix.get(), &matrix_at, bias.get(),
                                     &bias_at),
             "ask for the places of weights");
      add_rows(
          matrix,
          {parameter, gate * hidden * columns, reinterpret_cast<std::uintptr_t>(matrix_at) - base, hidden * columns},
          columns);
      add_rows(bias, {parameter + 2, gate * hidden, reinterpret_cast<std::uintptr_t>(bias_at) - base, hidden}, 1);
    }
    join_rows();
  }

  void add_rows(const TensorDescriptor& descriptor, const Rows& rows, std::size_t columns) {
    std::array<int, 3> extents{}, strides{};
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    int dimensions = 0;
    accept(cudnnGetTensorNdDescriptor(descriptor.get(), 3, &type, &dimensions, extents.data(), strides.data()),
           "ask for the order of weights");
    const std::array want{1, extent(spec_.hidden), static_cast<int>(columns)};
    const bool row_major = strides[2] == 1 && strides[1] == want[2];
    if (type != CUDNN_DATA_FLOAT || dimensions != 3 || extents != want || !row_major ||
        rows.place + rows.count * sizeof(float) > weight_bytes_)
      throw Refusal("cuDNN keeps the weights in an order that is not known here");
    rows_.push_back(rows);
  }

  /// Joins rows that follow each other in both orders, so that few copies do.
  void join_rows() {
    std::ranges::sort(rows_, {}, [](const Rows& rows) { return std::pair(rows.parameter, rows.first); });
    std::vector<Rows> joined;
    for (const Rows& rows : rows_) {
      if (!joined.empty() && joined.back().parameter == rows.parameter &&
          joined.back().place + joined.back().count * sizeof(float) == rows.place)
        joined.back().count += rows.count;
      else
        joined.push_back(rows);
    }
    rows_ = std::move(joined);
  }

  /// Puts the lengths on the GPU, where cuDNN's kernels may read them.
  void place_lengths() {
    const std::vector<std::int32_t> lengths(size(spec_.batch), extent(spec_.steps));
    lengths_.resize_discard(lengths.size());
    Context& here = context(device_);
    check(cudaMemcpyAsync(lengths_.data(), lengths.data(), lengths.size() * sizeof(std::int32_t),
                          cudaMemcpyHostToDevice, here.stream()),
          "cudaMemcpyAsync");
    here.synchronize();
  }

  void gather(const Context& here, const RecurrentWeights<const float>& weights, std::byte* target) const {
    const auto parameters = parameters_of(weights);
    for (const Rows& rows : rows_) copy(here, parameters[rows.parameter] + rows.first, target + rows.place, rows.count);
  }
  void scatter(const Context& here, const std::byte* source, const RecurrentWeights<float>& gradients) const {
    const auto parameters = parameters_of(gradients);
    for (const Rows& rows : rows_) copy(here, source + rows.place, parameters[rows.parameter] + rows.first, rows.count);
  }
  static void copy(const Context& here, const void* from, void* to, std::size_t floats) {
    check(cudaMemcpyAsync(to, from, floats * sizeof(float), cudaMemcpyDeviceToDevice, here.stream()),
          "cudaMemcpyAsync");
  }

  Device device_;
  RecurrentSpec spec_;
  DropoutDescriptor no_dropout_;
  RnnDescriptor layer_;
  SequenceDescriptor input_, output_;
  TensorDescriptor state_;
  std::size_t weight_bytes_ = 0, work_bytes_ = 0, reserve_bytes_ = 0;
  std::vector<Rows> rows_;
  Buffer<std::int32_t> lengths_;
  std::size_t forward_bytes_ = 0, backward_bytes_ = 0;                 // of workspaces
  std::size_t weights_ = 0, work_ = 0, gradients_ = 0, unwanted_ = 0;  // bytes in a workspace
};

}  // namespace

std::unique_ptr<FusedRecurrent> make_fused_recurrent(const Device& device, const RecurrentSpec& spec,
                                                     std::string& obstacle) {
  try {
    return std::make_unique<CudnnRecurrent>(device, spec);
  } catch (const Refusal& refusal) {
    obstacle = refusal.what();
    return nullptr;
  }
}

}  // namespace dragonn::kernels::cuda

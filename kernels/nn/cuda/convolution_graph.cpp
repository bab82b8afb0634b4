// SPDX-License-Identifier: MIT
// Graphs of cuDNN for convolutions, through its backend interface (cudnn_graph.h): nodes are descriptors with
// attributes. The emulation has a stand-in.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cudnn.h>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/nn/cuda/convolution_choice.h"
#include "kernels/nn/cuda/cudnn.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr std::size_t kMaxEngines = 32;

/// Owns a descriptor of cuDNN's backend: a tensor, an operation, or a step on the way to a plan.
class Node {
 public:
  explicit Node(cudnnBackendDescriptorType_t type) {
    accept(cudnnBackendCreateDescriptor(type, &node_), "make a node");
  }
  ~Node() { cudnnBackendDestroyDescriptor(node_); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  cudnnBackendDescriptor_t get() const { return node_; }

  template <class T>
  Node& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<const T> values) {
    accept(cudnnBackendSetAttribute(node_, name, type, static_cast<std::int64_t>(values.size()), values.data()),
           "describe a convolution");
    return *this;
  }
  template <class T>
  Node& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::initializer_list<T> values) {
    return set(name, type, std::span<const T>(values.begin(), values.size()));
  }
  Node& set(cudnnBackendAttributeName_t name, const Node& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, {other.get()});
  }
  Node& finalize(const char* step) {
    accept(cudnnBackendFinalize(node_), step);
    return *this;
  }

  /// Reads up to `values.size()` values. Returns how many there are.
  template <class T, std::size_t kSize>
  std::size_t read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::span<T, kSize> values) const {
    std::int64_t count = 0;
    accept(cudnnBackendGetAttribute(node_, name, type, static_cast<std::int64_t>(values.size()), &count, values.data()),
           "ask for a convolution's plan");
    return std::min(values.size(), static_cast<std::size_t>(count));
  }
  std::int64_t number(cudnnBackendAttributeName_t name) const {
    std::int64_t value = 0;
    read(name, CUDNN_TYPE_INT64, std::span(&value, 1));
    return value;
  }

 private:
  cudnnBackendDescriptor_t node_ = nullptr;
};

/// The tensors of the passes; the gradient of a tensor has its name.
enum Name : std::int64_t { kInput = 1, kWeights, kBias, kOutput, kSum };

/// An argument of a pass that runs.
struct Argument {
  Name name;
  const void* data;
};

/// A pass for one shape: its operations, and the plan that runs them. Nodes refer to each other, and live together.
class PassGraph {
 public:
  PassGraph(const char* pass, const ConvolutionSpec& spec) : pass_(pass), spec_(spec) {}

  void describe_forward() {
    const Node& output = tensor(kOutput, output_extents());
    const Node& sum = spec_.bias ? sum_before_bias() : output;
    convolve(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
             {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &tensor(kInput, input_extents())},
              {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &tensor(kWeights, filter_extents())},
              {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &sum}},
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
    if (spec_.bias) add_bias(sum, output);
  }

  void describe_backward_weights() {
    convolve(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
             {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, &tensor(kInput, input_extents())},
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, &tensor(kOutput, output_extents())},
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, &tensor(kWeights, filter_extents())}},
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
  }

  void describe_backward_data() {
    convolve(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
             {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, &tensor(kWeights, filter_extents())},
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, &tensor(kOutput, output_extents())},
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, &tensor(kInput, input_extents())}},
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
  }

  /// Chooses an engine and makes its plan. @throws Refusal if there is none.
  void build(cudnnHandle_t dnn) {
    Node& graph = add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {dnn});
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              std::span<const cudnnBackendDescriptor_t>(operations_));
    graph.finalize("describe a convolution's graph");
    Node& heuristics = add(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, {CUDNN_HEUR_MODE_A});
    heuristics.finalize("ask for a convolution's engines");
    std::array<const Node*, kMaxEngines> configurations{};
    std::array<cudnnBackendDescriptor_t, kMaxEngines> places{};
    for (std::size_t i = 0; i < kMaxEngines; ++i) {
      configurations[i] = &add(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      places[i] = configurations[i]->get();
    }
    const std::size_t count =
        heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(places));
    for (const Node* configuration : std::span(configurations).first(count))
      if (try_engine(dnn, *configuration)) return;
    throw Refusal(fmt::format(
        "of cuDNN's {} engines for the {} pass none is deterministic, sums in float32 and fits 1.07 GB", count, pass_));
  }

  std::size_t workspace_bytes() const { return bytes_; }
  PassDescription description() const {
    return {pass_, fmt::format("graph_engine_{}", engine_), tensor_cores_ ? "tensor_op" : "fma", bytes_};
  }

  /// Starts the pass on the stream of `dnn`. @throws DeviceError if cuDNN refuses.
  void run(cudnnHandle_t dnn, std::span<const Argument> arguments, void* workspace) const {
    std::vector<std::int64_t> names;
    std::vector<const void*> data;
    for (const Argument& argument : arguments) {
      names.push_back(argument.name);
      data.push_back(argument.data);
    }
    try {
      Node pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
      pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(names));
      pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<const void* const>(data));
      pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace});
      pack.finalize("name the arguments");
      accept(cudnnBackendExecute(dnn, plan_->get(), pack.get()), "cudnnBackendExecute");
    } catch (const Refusal& refusal) {
      throw DeviceError(fmt::format("the {} pass of a convolution by cuDNN's graph: {}", pass_, refusal.what()));
    }
  }

 private:
  /// The extents in cuDNN's order: images, channels, height, width; filters have outputs for images.
  using Extents = std::array<std::int64_t, 4>;
  Extents input_extents() const { return {spec_.batch, spec_.channels, spec_.height, spec_.width}; }
  Extents filter_extents() const {
    return {spec_.output_channels, spec_.channels, spec_.vertical.kernel, spec_.horizontal.kernel};
  }
  Extents output_extents() const {
    return {spec_.batch, spec_.output_channels, spec_.output_height(), spec_.output_width()};
  }

  Node& add(cudnnBackendDescriptorType_t type) { return nodes_.emplace_back(type); }

  /// Adds a tensor whose channels are neighbours in memory.
  Node& open_tensor(Name name, const Extents& of, cudnnDataType_t type, std::int64_t alignment) {
    Node& node = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    node.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {std::int64_t{name}});
    node.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {type});
    node.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {alignment});
    node.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(of));
    return node.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
                    {of[1] * of[2] * of[3], std::int64_t{1}, of[1] * of[3], of[1]});
  }
  Node& tensor(Name name, const Extents& of) {
    return open_tensor(name, of, CUDNN_DATA_BFLOAT16, 16).finalize("describe a tensor");
  }
  /// Adds the sums of the convolution, which stay in registers until the bias is added.
  Node& sum_before_bias() {
    Node& node = open_tensor(kSum, output_extents(), CUDNN_DATA_FLOAT, 16);
    return node.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, {true}).finalize("describe a sum");
  }

  struct Operand {
    cudnnBackendAttributeName_t name;
    const Node* tensor;
  };
  void convolve(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t windows,
                std::initializer_list<Operand> operands, cudnnBackendAttributeName_t alpha,
                cudnnBackendAttributeName_t beta) {
    Node& operation = add(type);
    operation.set(windows, describe_windows());
    for (const Operand& operand : operands) operation.set(operand.name, *operand.tensor);
    operation.set(alpha, CUDNN_TYPE_FLOAT, {1.0f}).set(beta, CUDNN_TYPE_FLOAT, {0.0f});
    operations_.push_back(operation.finalize("describe a convolution").get());
  }

  const Node& describe_windows() {
    const Window &vertical = spec_.vertical, &horizontal = spec_.horizontal;
    const std::array padding{vertical.padding, horizontal.padding}, strides{vertical.stride, horizontal.stride};
    Node& node = add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    node.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, {std::int64_t{2}});
    node.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
    node.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, {CUDNN_CROSS_CORRELATION});
    node.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(padding));
    node.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(padding));
    node.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, {std::int64_t{1}, std::int64_t{1}});
    node.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, std::span<const std::int64_t>(strides));
    return node.finalize("describe windows");
  }

  /// A bias lies anywhere among the parameters.
  void add_bias(const Node& sum, const Node& output) {
    const Node& bias = open_tensor(kBias, {1, spec_.output_channels, 1, 1}, CUDNN_DATA_FLOAT, sizeof(float))
                           .finalize("describe a bias");
    Node& addition = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    addition.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, {CUDNN_POINTWISE_ADD});
    addition.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
    addition.finalize("describe an addition");
    Node& operation = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, addition)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, output);
    operations_.push_back(operation.finalize("describe the sum with a bias").get());
  }

  /// Makes the plan of an engine if it does what is asked. Returns whether it does.
  bool try_engine(cudnnHandle_t dnn, const Node& configuration) {
    const Node engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t place = engine.get();
    configuration.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(&place, 1));
    std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
    const std::size_t count =
        engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span(notes));
    bool tensor_cores = false;
    for (const cudnnBackendNumericalNote_t note : std::span(notes).first(count)) {
      if (note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP) continue;
      if (note != CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return false;  // another order of sums, fewer bits, other products
      tensor_cores = true;
    }
    auto plan = std::make_unique<Node>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, {dnn});
    if (cudnnBackendFinalize(plan->get()) != CUDNN_STATUS_SUCCESS) return false;
    const auto bytes = static_cast<std::size_t>(plan->number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    if (bytes > kMaxWorkspaceBytes) return false;
    plan_ = std::move(plan);
    bytes_ = bytes;
    engine_ = engine.number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    tensor_cores_ = tensor_cores;
    return true;
  }

  const char* pass_;
  ConvolutionSpec spec_;
  std::deque<Node> nodes_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::unique_ptr<Node> plan_;
  std::size_t bytes_ = 0;
  std::int64_t engine_ = 0;
  bool tensor_cores_ = false;
};

class ConvolutionGraphs final : public ConvolutionPasses {
 public:
  /// @throws Refusal if cuDNN has no graph for one of the passes.
  ConvolutionGraphs(const Device& device, const ConvolutionSpec& spec) : device_(device), forward_("forward", spec) {
    const cudnnHandle_t dnn = context(device).dnn();
    forward_.describe_forward();
    forward_.build(dnn);
    if (!spec.training) return;
    backward_weights_.emplace("backward_weights", spec).describe_backward_weights();
    backward_weights_->build(dnn);
    if (!spec.input_gradient) return;
    backward_data_.emplace("backward_data", spec).describe_backward_data();
    backward_data_->build(dnn);
  }

  bool adds_bias() const override { return true; }
  PassBytes workspace_bytes() const override {
    const auto bytes = [](const auto& pass) { return pass ? pass->workspace_bytes() : 0; };
    return {forward_.workspace_bytes(), bytes(backward_weights_), bytes(backward_data_)};
  }
  std::vector<PassDescription> describe() const override {
    std::vector<PassDescription> passes{forward_.description()};
    if (backward_weights_) passes.push_back(backward_weights_->description());
    if (backward_data_) passes.push_back(backward_data_->description());
    return passes;
  }

  void forward(const ForwardOperands& of, void* workspace) const override {
    const std::array<Argument, 4> arguments{
        {{kInput, of.input}, {kWeights, of.weights}, {kOutput, of.output}, {kBias, of.bias}}};
    forward_.run(dnn(), std::span(arguments).first(of.bias == nullptr ? 3 : 4), workspace);
  }
  void backward_weights(const void* input, const void* output_gradient, void* weights_gradient,
                        void* workspace) const override {
    const std::array<Argument, 3> arguments{
        {{kInput, input}, {kOutput, output_gradient}, {kWeights, weights_gradient}}};
    backward_weights_->run(dnn(), arguments, workspace);
  }
  void backward_data(const void* weights, const void* output_gradient, void* input_gradient,
                     void* workspace) const override {
    const std::array<Argument, 3> arguments{
        {{kWeights, weights}, {kOutput, output_gradient}, {kInput, input_gradient}}};
    backward_data_->run(dnn(), arguments, workspace);
  }

 private:
  cudnnHandle_t dnn() const { return context(device_).dnn(); }

  Device device_;
  PassGraph forward_;
  std::optional<PassGraph> backward_weights_, backward_data_;
};

/// The answer of cuDNN for a shape.
struct Known {
  Device device;
  ConvolutionSpec spec;
  std::shared_ptr<const ConvolutionPasses> passes;  ///< null if cuDNN has none
  std::string obstacle;
};

Known look_up(const Device& device, const ConvolutionSpec& spec) {
  Known known{device, spec, nullptr, {}};
  try {
    known.passes = std::make_shared<ConvolutionGraphs>(device, spec);
  } catch (const Refusal& refusal) {
    known.obstacle = refusal.what();
  }
  return known;
}

}  // namespace

std::shared_ptr<const ConvolutionPasses> make_convolution_graphs(const Device& device, const ConvolutionSpec& spec,
                                                                 std::string& obstacle) {
  thread_local std::vector<Known> all;  // as the handle that plans are made with
  auto place =
      std::ranges::find_if(all, [&](const Known& known) { return known.device == device && known.spec == spec; });
  if (place == all.end()) place = all.insert(all.end(), look_up(device, spec));
  obstacle = place->obstacle;
  return place->passes;
}

}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
/// Layer: the description of one operation of a network. LayerPlan: the operation for one batch size, ready to run.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/component_traits.h"
#include "core/error.h"
#include "core/parameter.h"
#include "core/shape.h"
#include "core/view.h"
#include "kernels/device_math.h"
#include "kernels/nn/plan.h"
#include "kernels/typed_view.h"
#include "layers/initializer.h"

namespace dragonn::layers {

/// The purpose of a forward pass. kTrain: batch statistics, dropout, and memory for a backward pass. kEvaluate: running
/// statistics and no dropout.
enum class Mode { kTrain, kEvaluate };

/// What a training step does not keep from forward to backward, but computes again right before backward reads it: the
/// same bits. kElementwise: outputs of layers with LayerTraits::is_cheap. kBlock: all outputs within the graph's blocks
/// (LayerGraph::make_block), but for those that layers outside read.
enum class Recompute { kNone, kElementwise, kBlock };
constexpr auto choices(Recompute) {
  return std::array{"none", "elementwise", "block"};
}

/// A parameter as its layer declares it; the graph prefixes the layer's name.
struct ParameterSpec {
  std::string name;  ///< "weight", "bias"
  Shape shape;
  ParameterRole role = ParameterRole::kWeight;
  Initializer initializer = Initializer::constant(0);
  bool spans_features =
      false;  ///< its last axis has an element for each feature (last axis) of the layer's first input
  /// The last rows that only round their number up. They start at zero, and files of weights leave them out.
  std::int64_t padding = 0;

  /// Returns the shape without the padding.
  Shape used_shape() const { return shape.with_batch(shape[0] - padding); }
};

/// State that forward updates and backward does not differentiate: batch norm's running moments.
struct StatisticsSpec {
  std::size_t size = 0;
  float initial = 0;
  std::string name = {};  ///< "running_mean"; the graph prefixes the layer's name
  /// The rule for another number of workers. kReshard: all ranks start from the mean over the old ones.
  OnResize on_resize = OnResize::kRefuse;
};

/// Values that a layer carries from one batch to the next, for windows of longer sequences.
struct StateSpec {
  std::size_t size = 0;  ///< floats per sample; starts as zeros
  /// The rule for another number of workers. kRestart: zeros. The rows of a batch then are at other places of the data,
  /// so there is nothing that kReshard could mean.
  OnResize on_resize = OnResize::kRefuse;
};

/// The operation of a layer for one batch size and mode, and the arguments of its passes. Parameters, statistics and
/// states are in the order in which the layer declares them. BackwardPass has inputs if
/// LayerTraits::backward_reads_inputs, and the output if backward_reads_output.
using LayerPlan = kernels::Plan;
using kernels::BackwardPass;
using kernels::ForwardPass;

/// The algorithms of a layer of a network.
struct LayerDescription {
  std::string layer;
  std::vector<kernels::PassDescription> passes;
};

/// Makes a plan of two functions of a pass, which needs no memory.
inline std::unique_ptr<LayerPlan> layer_plan(std::function<void(const ForwardPass&)> forward,
                                             std::function<void(const BackwardPass&)> backward) {
  struct Functions final : LayerPlan {
    void forward(const ForwardPass& pass) override { run_forward(pass); }
    void backward(const BackwardPass& pass) override { run_backward(pass); }
    std::function<void(const ForwardPass&)> run_forward;
    std::function<void(const BackwardPass&)> run_backward;
  };
  auto plan = std::make_unique<Functions>();
  plan->run_forward = std::move(forward);
  plan->run_backward = std::move(backward);
  return plan;
}

/// The properties of a layer that the memory planner uses.
struct LayerTraits {
  bool backward_reads_inputs = false;
  bool backward_reads_output = false;
  /// The output may share the memory of input 0.
  bool forward_in_place = false;
  /// Input gradients may share the memory of output gradients: the last input's that of the first output gradient, the
  /// input's before it that of the second.
  bool backward_in_place = false;
  /// Backward takes two output gradients and works on their sum.
  bool sums_output_gradients = false;
  /// Passes draw from a random stream.
  bool is_random = false;
  /// The output is the input under another shape: there is nothing to compute, and no plan.
  bool is_view = false;
  /// Plans take and give bf16, too. A network keeps activations in bf16 only if all its layers do.
  bool takes_bf16 = false;
  /// The input is float32 whatever the type of the activations: whole numbers of more than 8 bits.
  bool takes_tokens = false;
  /// A row of the output (all axes but the last) depends on that row of the only input alone, and plans take any number
  /// of rows, [rows, features].
  bool works_by_rows = false;
  /// Backward can add to the gradients of the parameters (BackwardPass::adds_parameter_gradients).
  bool adds_parameter_gradients = false;
  /// Forward takes little time beside the products of other layers, and its input is kept for backward anyway.
  bool is_cheap = false;
  /// Each time step of the output depends in evaluation on that step of the inputs alone, and not on its number.
  bool is_stepwise = false;
};

/// The arguments of a plan. Shapes include the batch.
struct PlanContext {
  Device device;
  Mode mode = Mode::kTrain;
  std::vector<Shape> inputs;
  Shape output;
  std::vector<bool> input_gradients;                           ///< by input: whether backward computes its gradient
  kernels::ElementType type = kernels::ElementType::kFloat32;  ///< of activations and their gradients
  kernels::DeviceMath math = kernels::DeviceMath::kFloat32;    ///< of products
};

/// How a device runs the passes of a network.
struct Execution {
  kernels::DeviceMath math = kernels::DeviceMath::kFloat32;  ///< of products, and of activations in memory
  bool records = true;  ///< a GPU records passes, and replays them (kernels/repeated_work.h)
  Recompute recompute = Recompute::kNone;
};

using Shapes = std::span<const Shape>;

/// The operation of a layer on the next time steps of one sequence, which keeps what later steps need. The views of the
/// pass have the next steps alone. @param before the number of steps before them: what was kept of later ones is
/// forgotten.
using NextSteps = std::function<void(const ForwardPass& pass, std::size_t before)>;

/// The description of a layer. Shapes given to its functions include the batch as the first axis.
struct Layer {
  std::string kind;  ///< for summaries: "convolution 3x3/2"
  LayerTraits traits = {};
  /// Returns the shape of the output. @throws ShapeError if the inputs do not fit the layer.
  std::function<Shape(Shapes inputs)> output_shape = {};
  std::function<std::vector<ParameterSpec>(Shapes inputs)> parameters = [](Shapes) -> std::vector<ParameterSpec> {
    return {};
  };
  std::function<std::vector<StatisticsSpec>(Shapes inputs)> statistics = [](Shapes) -> std::vector<StatisticsSpec> {
    return {};
  };
  std::vector<StateSpec> states = {};
  /// Returns the valid time steps of a sample's output if `steps` of its input are valid. Time is the axis after the
  /// batch.
  std::function<std::int64_t(std::int64_t steps)> output_steps = [](std::int64_t steps) { return steps; };
  /// Returns the floating-point operations of a forward pass's matrix products, 2 per multiply-add. Products with
  /// padding count, as in published numbers. 0 for layers without such products.
  std::function<double(Shapes inputs)> forward_flops = [](Shapes) { return 0.0; };
  /// Makes a plan. Views have none.
  std::function<std::unique_ptr<LayerPlan>(const PlanContext& context)> plan = {};
  /// Makes the operation for evaluating a sequence piece by piece, on the CPU. `inputs` are those of the longest one,
  /// with batch 1. Empty if the layer is stepwise, or needs later steps.
  std::function<NextSteps(Shapes inputs)> next_steps = {};
};

inline std::size_t extent(const Shape& shape, std::size_t axis) {
  return static_cast<std::size_t>(shape[axis]);
}

/// The first of `count` inputs, of any rank. @throws ShapeError naming the layer if there are more or fewer.
inline const Shape& first_input(std::string_view layer, Shapes inputs, std::size_t count) {
  if (inputs.size() != count) throw ShapeError(fmt::format("{} takes {} inputs, not {}", layer, count, inputs.size()));
  return inputs[0];
}

/// The only input. @throws ShapeError likewise, or if it does not have `rank` axes.
inline const Shape& single_input(std::string_view layer, Shapes inputs, std::size_t rank) {
  const Shape& input = first_input(layer, inputs, 1);
  if (input.rank() != rank)
    throw ShapeError(fmt::format("{} takes an input of {} axes ({}), not of shape {}", layer, rank,
                                 rank == 4 ? "batch, height, width, channels" : "batch, features", input.to_string()));
  return input;
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// Layer: one operation of a network, as a description; LayerPlan: the same for one batch size, ready to run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/parameter.h"
#include "core/shape.h"
#include "core/view.h"
#include "kernels/nn/plan.h"
#include "layers/initializer.h"
#include "layers/mode.h"

namespace dragonn::layers {

/// A parameter as its layer declares it; the graph prefixes the layer's name.
struct ParameterSpec {
  std::string name;  ///< "weight", "bias"
  Shape shape;
  ParameterRole role = ParameterRole::kWeight;
  Initializer initializer = Initializer::constant(0);
};

/// State that forward updates and backward does not differentiate: batch norm's running moments.
struct StatisticsSpec {
  std::size_t size = 0;
  float initial = 0;
};

/// Values that a layer carries from one batch to the next: where a window of a longer sequence ends, the next begins.
struct StateSpec {
  std::size_t size = 0;  ///< floats per sample; starts as zeros
};

/// What one forward pass hands to a layer. Views stay where they are from step to step.
struct ForwardPass {
  std::span<const View<const float>> inputs;
  std::span<const View<const float>> parameters;  ///< in the order of Layer::parameters()
  std::span<const View<float>> statistics;        ///< in the order of Layer::statistics()
  std::span<const View<float>> states;    ///< in the order of Layer::states(), [batch, size]; forward moves them on
  std::span<const std::int32_t> lengths;  ///< [batch], valid time steps of the output; empty: all are
  View<float> output;
  View<float> saved;
  View<float> scratch;
  View<const std::uint64_t> stream;  ///< key of this layer's random stream in this step; the same in the backward pass
};

/// What one backward pass hands to a layer.
struct BackwardPass {
  std::span<const View<const float>> inputs;  ///< valid if LayerTraits::backward_reads_inputs
  View<const float> output;                   ///< valid if LayerTraits::backward_reads_output
  std::span<const View<const float>> parameters;
  std::span<const View<const float>> output_gradients;  ///< one, or two if LayerTraits::sums_output_gradients
  std::span<const View<float>> input_gradients;         ///< overwritten; an empty view is not wanted
  std::span<const View<float>> parameter_gradients;     ///< overwritten
  std::span<const std::int32_t> lengths;                ///< as in the forward pass
  View<const float> saved;
  View<float> scratch;
  View<const std::uint64_t> stream;
};

/// Made once per batch size and mode. Allocates in its constructor only. What a pass without lengths asks a GPU for is
/// the same every time, so that it can be recorded: it depends on nothing but the views of the pass, and does not wait.
class LayerPlan {
 public:
  virtual ~LayerPlan() = default;
  virtual kernels::PlanMemory memory() const { return {}; }
  virtual void forward(const ForwardPass& pass) = 0;
  /// After a forward pass of a plan made for Mode::kTrain.
  virtual void backward(const BackwardPass& pass) = 0;
};

/// What the memory planner must know of a layer.
struct LayerTraits {
  bool backward_reads_inputs = false;
  bool backward_reads_output = false;
  /// The output may share the memory of input 0.
  bool forward_in_place = false;
  /// Input gradients may share the memory of the output gradients: the last input's that of the first output gradient,
  /// the input's before it that of the second.
  bool backward_in_place = false;
  /// Backward takes two output gradients and works on their sum.
  bool sums_output_gradients = false;
  /// Passes draw from a random stream.
  bool is_random = false;
  /// The output is the input under another shape: there is nothing to compute, and no plan.
  bool is_view = false;
};

/// What a plan is made for. Shapes include the batch.
struct PlanContext {
  Device device;
  Mode mode = Mode::kTrain;
  std::vector<Shape> inputs;
  Shape output;
  std::vector<bool> input_gradients;  ///< which inputs' gradients backward will want
};

/// Immutable. Shapes given to a layer include the batch as the first axis.
class Layer {
 public:
  virtual ~Layer() = default;

  /// "convolution 3x3/2", for summaries.
  virtual std::string kind() const = 0;
  virtual LayerTraits traits() const = 0;
  /// @throws ShapeError if the inputs do not fit the layer.
  virtual Shape output_shape(std::span<const Shape> inputs) const = 0;
  virtual std::vector<ParameterSpec> parameters(std::span<const Shape> /*inputs*/) const { return {}; }
  virtual std::vector<StatisticsSpec> statistics(std::span<const Shape> /*inputs*/) const { return {}; }
  virtual std::vector<StateSpec> states(std::span<const Shape> /*inputs*/) const { return {}; }
  /// Valid time steps of the output of a sample of which `steps` of the input are. Time is the axis behind the batch.
  virtual std::int64_t output_steps(std::int64_t steps) const { return steps; }
  /// Floating-point operations of the matrix products of a forward pass, 2 per multiply-add; products with padding
  /// count, as in published numbers. 0 for layers without such products.
  virtual double forward_flops(std::span<const Shape> /*inputs*/) const { return 0; }
  /// Null for a view.
  virtual std::unique_ptr<LayerPlan> plan(const PlanContext& context) const = 0;
};

}  // namespace dragonn::layers

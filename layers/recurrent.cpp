// SPDX-License-Identifier: MIT
#include "kernels/nn/recurrent.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "kernels/nn/sequence_rows.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

constexpr std::size_t kParametersPerDirection = 4;

template <class T>
kernels::RecurrentWeights<T> weights_of(std::span<const View<T>> parameters, std::size_t direction) {
  const auto own = parameters.subspan(direction * kParametersPerDirection, kParametersPerDirection);
  return {own[0], own[1], own[2], own[3]};
}

/// Runs one or two directions on a time-major copy of the input.
class RecurrentLayerPlan final : public LayerPlan {
 public:
  RecurrentLayerPlan(const RecurrentSettings& settings, const PlanContext& context)
      : directions_(settings.bidirectional ? 2 : 1),
        joined_(settings.bidirectional && settings.join == DirectionJoin::kSum) {
    const Shape& input = context.inputs[0];
    const auto size = [](std::int64_t extent) { return static_cast<std::size_t>(extent); };
    inputs_ = {size(input[0]), size(input[1]), size(input[2]), 0, size(input[2])};
    outputs_ = {size(input[0]), size(input[1]), size(context.output[2]), 0, size(settings.hidden)};
    for (std::size_t d = 0; d < directions_; ++d)
      plans_[d] = kernels::make_recurrent_plan(
          context.device, {settings.cell, input[1], input[0], input[2], settings.hidden, d == 1,
                           context.mode == Mode::kTrain, context.input_gradients[0], context.math});
  }

  kernels::PlanMemory memory() const override {
    const kernels::PlanMemory one = plans_[0]->memory();
    return {input_floats() + directions_ * kernels::aligned_floats(one.saved), one.forward_scratch,
            input_floats() + output_floats() + one.backward_scratch};
  }

  std::vector<kernels::PassDescription> describe() const override {
    std::vector<kernels::PassDescription> passes = plans_[0]->describe();
    if (directions_ > 1) std::ranges::copy(plans_[1]->describe(), std::back_inserter(passes));
    return passes;
  }

  void forward(const ForwardPass& pass) override {
    const View<float> input = pass.saved.subview(0, inputs_.batch * inputs_.steps * inputs_.size);
    kernels::to_time_major(inputs_, pass.inputs[0], pass.lengths, input);
    for (std::size_t d = 0; d < directions_; ++d) {
      const View<float> saved = saved_of(pass.saved, d);
      plans_[d]->forward({input, weights_of(pass.parameters, d), pass.states, pass.lengths, saved, pass.scratch});
      kernels::to_batch_major(output_rows(d), plans_[d]->hidden(saved), pass.lengths, joined_ && d > 0, pass.output);
    }
  }

  void backward(const BackwardPass& pass) override {
    const std::size_t inputs = inputs_.batch * inputs_.steps * inputs_.size;
    const View<float> input_gradient = pass.scratch.subview(0, pass.input_gradients[0].empty() ? 0 : inputs);
    const View<float> output_gradient =
        pass.scratch.subview(input_floats(), outputs_.batch * outputs_.steps * outputs_.size);
    const std::size_t used = input_floats() + output_floats();
    const View<float> scratch = pass.scratch.subview(used, pass.scratch.size() - used);
    for (std::size_t d = 0; d < directions_; ++d) {
      kernels::to_time_major(output_rows(d), pass.output_gradients[0], pass.lengths, output_gradient);
      plans_[d]->backward({pass.saved.subview(0, inputs), weights_of(pass.parameters, d), output_gradient,
                           input_gradient, weights_of(pass.parameter_gradients, d), pass.lengths,
                           saved_of(pass.saved, d), scratch});
      if (input_gradient.empty()) continue;
      kernels::to_batch_major(inputs_, input_gradient, pass.lengths, d > 0, pass.input_gradients[0]);
    }
  }

 private:
  std::size_t input_floats() const { return kernels::aligned_floats(inputs_.batch * inputs_.steps * inputs_.size); }
  std::size_t output_floats() const { return kernels::aligned_floats(outputs_.batch * outputs_.steps * outputs_.size); }

  /// Returns the place of a direction's hidden states in the output.
  kernels::SequenceRows output_rows(std::size_t direction) const {
    kernels::SequenceRows rows = outputs_;
    rows.offset = joined_ ? 0 : direction * rows.size;
    return rows;
  }

  template <class T>
  View<T> saved_of(View<T> saved, std::size_t direction) const {
    const std::size_t size = kernels::aligned_floats(plans_[0]->memory().saved);
    return saved.subview(input_floats() + direction * size, size);
  }

  std::size_t directions_;
  bool joined_;
  kernels::SequenceRows inputs_, outputs_;
  std::array<std::unique_ptr<kernels::RecurrentPlan>, 2> plans_;
};

}  // namespace

Layer recurrent(const RecurrentSettings& settings) {
  if (settings.bidirectional && settings.carries_state)
    throw ConfigError(
        "a bidirectional recurrent layer cannot carry state: its backward direction would need future steps");
  const bool lstm = settings.cell == kernels::Cell::kLstm;
  const std::string kind = std::string(settings.bidirectional ? "bidirectional " : "") + (lstm ? "LSTM" : "GRU");
  const std::int64_t hidden = settings.hidden, rows = kernels::gates_of(settings.cell) * hidden;
  Layer layer{.kind = kind, .traits = {.takes_bf16 = true}};
  layer.output_shape = [=](Shapes inputs) -> Shape {
    const Shape& input = single_input(kind, inputs, 3);
    const bool wide = settings.bidirectional && settings.join == DirectionJoin::kConcatenate;
    return {input[0], input[1], hidden * (wide ? 2 : 1)};
  };
  layer.parameters = [=](Shapes inputs) {
    const Initializer initializer =
        settings.initial_bound > 0 ? Initializer::uniform(settings.initial_bound) : Initializer::fan_in_uniform(hidden);
    std::vector<ParameterSpec> specs;
    for (const std::string suffix : {"", "_reverse"}) {
      specs.push_back({"weight_ih" + suffix, {rows, inputs[0][2]}, ParameterRole::kWeight, initializer, true});
      specs.push_back({"weight_hh" + suffix, {rows, hidden}, ParameterRole::kWeight, initializer});
      specs.push_back({"bias_ih" + suffix, {rows}, ParameterRole::kBias, initializer});
      specs.push_back({"bias_hh" + suffix, {rows}, ParameterRole::kBias, initializer});
      if (!settings.bidirectional) break;
    }
    return specs;
  };
  if (settings.carries_state)
    layer.states.assign(lstm ? 2 : 1, StateSpec{static_cast<std::size_t>(hidden), OnResize::kRestart});
  layer.forward_flops = [=](Shapes inputs) {
    const Shape& input = inputs[0];
    return 2.0 * static_cast<double>(input[0] * input[1]) * static_cast<double>(rows * (input[2] + hidden)) *
           (settings.bidirectional ? 2 : 1);
  };
  layer.plan = [=](const PlanContext& context) { return std::make_unique<RecurrentLayerPlan>(settings, context); };
  return layer;
}

}  // namespace dragonn::layers

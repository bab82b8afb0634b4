// SPDX-License-Identifier: MIT
#include "tests/layers/graph_harness.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include <omp.h>

#include "core/rng.h"
#include "kernels/nn/elementwise.h"
#include "tests/support/devices.h"
#include "tests/support/typed_values.h"

namespace dragonn::layers::test {

using dragonn::test::on_device;
using dragonn::test::poisoned;
using dragonn::test::to_host;

GraphHarness::GraphHarness(std::unique_ptr<LayerGraph> graph, std::size_t batch, const Device& device, Mode mode,
                           bool input_gradient, kernels::ElementType type, const Execution& execution)
    : graph_(std::move(graph)), arena_(device), has_input_gradient_(input_gradient && mode == Mode::kTrain) {
  omp_set_num_threads(1);  // as a worker does by default; waking threads would take longer than these tiny layers
  for (const ParameterSpec& spec : graph_->parameters()) arena_.declare(spec.name, spec.shape, spec.role);
  arena_.allocate();
  for (ParameterId id = 0; id < arena_.parameters().size(); ++id) {
    Rng stream(7, "harness", {id});
    std::vector<float> values(arena_[id].size);
    graph_->parameters()[id].initializer.fill(values, stream);
    set(id, values);
  }
  for (const StatisticsSpec& spec : graph_->statistics())
    statistics_.insert(statistics_.end(), spec.size, spec.initial);
  for (const StateSpec& spec : graph_->states()) states_.resize(states_.size() + spec.size * batch);
  initial_states_ = states_;
  device_statistics_ = on_device(statistics_, device);
  device_states_ = on_device(states_, device);
  plan_ = std::make_unique<GraphPlan>(*graph_, batch, mode, device, has_input_gradient_, type, execution);
  workspace_ = poisoned(plan_->workspace_floats(), device);
  plan_->bind(workspace_.view(), arena_, device_statistics_.view(), device_states_.view());
}

std::vector<float> GraphHarness::forward(const std::vector<float>& input) {
  kernels::copy(View<const float>(input), plan_->input());
  kernels::copy(View<const float>(statistics_), device_statistics_.view());
  kernels::copy(View<const float>(initial_states_), device_states_.view());
  plan_->forward({}, lengths_);
  statistics_ = to_host(device_statistics_.view());
  states_ = to_host(device_states_.view());
  if (!plan_->runs_in_chunks()) return dragonn::test::values_of(plan_->output());
  std::vector<float> output;
  plan_->compute_chunks([&](const OutputChunk& chunk) {
    const std::vector<float> rows = dragonn::test::values_of(chunk.output);
    output.insert(output.end(), rows.begin(), rows.end());
  });
  return output;
}

std::vector<ParameterId> GraphHarness::backward(const std::vector<float>& output_gradient) {
  kernels::fill(std::numeric_limits<float>::quiet_NaN(), arena_.gradients());
  if (plan_->runs_in_chunks())
    plan_->run_chunks([&](const OutputChunk& chunk) {
      const auto rows = std::span(output_gradient).subspan(chunk.begin * graph_->columns(), chunk.output.size());
      dragonn::test::set_values(chunk.output, {rows.begin(), rows.end()});
    });
  else
    dragonn::test::set_values(plan_->output_gradient(), output_gradient);
  std::vector<ParameterId> order;
  plan_->backward([&](ParameterId id) { order.push_back(id); });
  return order;
}

ParameterId GraphHarness::id_of(const std::string& parameter) const {
  const auto& all = arena_.parameters();
  const auto found = std::ranges::find(all, parameter, &Parameter::name);
  DRAGONN_CHECK(found != all.end(), "no parameter {}", parameter);
  return static_cast<ParameterId>(found - all.begin());
}

void GraphHarness::set(const std::string& parameter, const std::vector<float>& values) {
  set(id_of(parameter), values);
}

void GraphHarness::set(ParameterId parameter, const std::vector<float>& values) {
  kernels::copy(View<const float>(values), arena_.value(parameter));
}

void GraphHarness::set_random_parameters() {
  const std::vector<float> values = random_values(arena_.size(), 5);
  kernels::copy(View<const float>(values), arena_.values());
}

std::vector<float> GraphHarness::value(ParameterId parameter) {
  return to_host(arena_.value(parameter));
}

std::vector<float> GraphHarness::gradient(const std::string& parameter) {
  return to_host(arena_.gradient(id_of(parameter)));
}

std::vector<float> GraphHarness::input_gradient() const {
  return dragonn::test::values_of(plan_->input_gradient());
}

std::vector<float> spaced_values(std::size_t count, float spacing, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = (static_cast<float>(i) - static_cast<float>(count / 2) + 0.5f) * spacing;
  Rng stream(seed, "spaced values");
  for (std::size_t i = count; i > 1; --i) std::swap(values[i - 1], values[stream.below(i)]);
  return values;
}

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  Rng stream(seed, "random values");
  std::vector<float> values(count);
  for (float& value : values) value = stream.normal();
  return values;
}

namespace {

/// Error of one tensor's gradient. @param loss of values of the tensor.
template <class Loss>
double tensor_error(const Loss& loss, std::vector<float> values, const std::vector<float>& gradient, double step) {
  double largest = 1, error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float before = values[i];
    values[i] = static_cast<float>(before + step);
    const double above = values[i], loss_above = loss(values);
    values[i] = static_cast<float>(before - step);
    const double below = values[i], loss_below = loss(values);
    values[i] = before;
    const double difference = std::abs((loss_above - loss_below) / (above - below) - gradient[i]);
    error = std::max(error, std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity());
    largest = std::max(largest, std::abs(static_cast<double>(gradient[i])));
  }
  return error / largest;
}

}  // namespace

double gradient_error(GraphHarness& harness, const std::vector<float>& input, double step) {
  const std::vector<float> weights = random_values(harness.output_size(), 99);
  const auto loss_of = [&](const std::vector<float>& of) {
    const std::vector<float> output = harness.forward(of);
    return std::transform_reduce(output.begin(), output.end(), weights.begin(), 0.0, std::plus<>(),
                                 [](double a, double b) { return a * b; });
  };
  harness.forward(input);
  harness.backward(weights);
  std::vector<std::vector<float>> gradients;
  for (const Parameter& parameter : harness.arena().parameters()) gradients.push_back(harness.gradient(parameter.name));
  double error = 0;
  if (harness.has_input_gradient()) error = tensor_error(loss_of, input, harness.input_gradient(), step);
  for (ParameterId id = 0; id < gradients.size(); ++id) {
    const std::vector<float> values = harness.value(id);
    const auto loss_with = [&](const std::vector<float>& other) {
      harness.set(id, other);
      return loss_of(input);
    };
    error = std::max(error, tensor_error(loss_with, values, gradients[id], step));
    harness.set(id, values);
  }
  return error;
}

}  // namespace dragonn::layers::test

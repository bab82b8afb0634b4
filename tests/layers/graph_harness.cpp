// SPDX-License-Identifier: MIT
#include "tests/layers/graph_harness.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include <omp.h>

#include "core/rng.h"

namespace dragonn::layers::test {

GraphHarness::GraphHarness(std::unique_ptr<LayerGraph> graph, std::size_t batch, Mode mode, bool input_gradient)
    : graph_(std::move(graph)), has_input_gradient_(input_gradient && mode == Mode::kTrain) {
  omp_set_num_threads(1);  // as a worker does by default; waking threads would take longer than these tiny layers
  for (const ParameterSpec& spec : graph_->parameters()) arena_.declare(spec.name, spec.shape, spec.role);
  arena_.allocate();
  for (ParameterId id = 0; id < arena_.parameters().size(); ++id) {
    Rng stream(7, "harness", {id});
    graph_->parameters()[id].initializer.fill(arena_.value(id).host(), stream);
  }
  for (const StatisticsSpec& spec : graph_->statistics())
    statistics_.insert(statistics_.end(), spec.size, spec.initial);
  for (const StateSpec& spec : graph_->states()) states_.resize(states_.size() + spec.size * batch);
  initial_states_ = states_;
  plan_ = std::make_unique<GraphPlan>(*graph_, batch, mode, Device{}, has_input_gradient_);
  workspace_.resize_discard(plan_->workspace_floats());
  std::ranges::fill(workspace_.host(), std::numeric_limits<float>::quiet_NaN());
  plan_->bind(workspace_.view(), arena_, View<float>(std::span(statistics_)), View<float>(std::span(states_)));
}

std::vector<float> GraphHarness::forward(const std::vector<float>& input) {
  std::ranges::copy(input, plan_->input().data());
  std::ranges::copy(initial_states_, states_.begin());
  plan_->forward({}, lengths_);
  const std::span<float> output = plan_->output().host();
  return {output.begin(), output.end()};
}

std::vector<ParameterId> GraphHarness::backward(const std::vector<float>& output_gradient) {
  std::ranges::fill(arena_.gradients().host(), std::numeric_limits<float>::quiet_NaN());
  std::ranges::copy(output_gradient, plan_->output_gradient().data());
  std::vector<ParameterId> order;
  plan_->backward({}, [&](ParameterId id) { order.push_back(id); });
  return order;
}

ParameterId GraphHarness::id_of(const std::string& parameter) const {
  const auto& all = arena_.parameters();
  const auto found = std::ranges::find(all, parameter, &Parameter::name);
  DRAGONN_CHECK(found != all.end(), "no parameter {}", parameter);
  return static_cast<ParameterId>(found - all.begin());
}

void GraphHarness::set(const std::string& parameter, const std::vector<float>& values) {
  const View<float> target = arena_.value(id_of(parameter));
  DRAGONN_CHECK(target.size() == values.size(), "{} values for {} of {}", values.size(), parameter, target.size());
  std::ranges::copy(values, target.data());
}

std::vector<float> GraphHarness::gradient(const std::string& parameter) {
  const std::span<float> values = arena_.gradient(id_of(parameter)).host();
  return {values.begin(), values.end()};
}

std::vector<float> GraphHarness::input_gradient() const {
  const std::span<const float> values = plan_->input_gradient().host();
  return {values.begin(), values.end()};
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

double loss_of(GraphHarness& harness, const std::vector<float>& input, const std::vector<float>& weights) {
  const std::vector<float> output = harness.forward(input);
  return std::transform_reduce(output.begin(), output.end(), weights.begin(), 0.0, std::plus<>(),
                               [](double a, double b) { return a * b; });
}

/// Error of one tensor's gradient; `values` are read by the loss and come back as they were.
double tensor_error(GraphHarness& harness, const std::vector<float>& input, const std::vector<float>& weights,
                    std::span<float> values, const std::vector<float>& gradient, double step) {
  double largest = 1, error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float before = values[i];
    values[i] = static_cast<float>(before + step);
    const double above = values[i], loss_above = loss_of(harness, input, weights);
    values[i] = static_cast<float>(before - step);
    const double below = values[i], loss_below = loss_of(harness, input, weights);
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
  harness.forward(input);
  harness.backward(weights);
  std::vector<std::vector<float>> gradients;
  for (const Parameter& parameter : harness.arena().parameters()) gradients.push_back(harness.gradient(parameter.name));
  std::vector<float> probe = input;
  double error = 0;
  if (harness.has_input_gradient())
    error = tensor_error(harness, probe, weights, probe, harness.input_gradient(), step);
  for (ParameterId id = 0; id < gradients.size(); ++id)
    error =
        std::max(error, tensor_error(harness, input, weights, harness.arena().value(id).host(), gradients[id], step));
  return error;
}

}  // namespace dragonn::layers::test

// SPDX-License-Identifier: MIT
/// GraphHarness: runs a small layer graph by hand in tests, and checks its gradients by central differences.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/parameter.h"
#include "layers/graph.h"
#include "layers/graph_plan.h"

namespace dragonn::layers::test {

/// A graph with memory of its own, on any device. Parameters start from their initializers; the workspace starts as
/// NaN, so that anything read before it is written shows. Values go in and out as vectors of the host.
class GraphHarness {
 public:
  GraphHarness(std::unique_ptr<LayerGraph> graph, std::size_t batch, const Device& device = {},
               Mode mode = Mode::kTrain, bool input_gradient = true,
               kernels::ElementType type = kernels::ElementType::kFloat32, const Execution& execution = {});

  std::vector<float> forward(const std::vector<float>& input);
  /// Runs backward after forward. Fills gradient() and input_gradient(); returns the parameters in the order in which
  /// they were reported final.
  std::vector<ParameterId> backward(const std::vector<float>& output_gradient);

  void set(const std::string& parameter, const std::vector<float>& values);
  void set(ParameterId parameter, const std::vector<float>& values);
  void set_random_parameters();
  std::vector<float> value(ParameterId parameter);
  std::vector<float> gradient(const std::string& parameter);
  std::vector<float> input_gradient() const;
  std::vector<float>& statistics() { return statistics_; }
  /// The state that every forward starts from, and the one that the last forward ended with.
  std::vector<float>& initial_states() { return initial_states_; }
  const std::vector<float>& final_states() const { return states_; }
  /// Sets the lengths of every forward from now on.
  void set_lengths(std::vector<std::int32_t> lengths) { lengths_ = std::move(lengths); }
  bool has_input_gradient() const { return has_input_gradient_; }
  ParameterArena& arena() { return arena_; }
  GraphPlan& plan() { return *plan_; }
  std::size_t input_size() const { return plan_->input().size(); }
  std::size_t output_size() const { return output_rows(*graph_, plan_->batch()) * graph_->columns(); }

 private:
  ParameterId id_of(const std::string& parameter) const;

  std::unique_ptr<LayerGraph> graph_;
  ParameterArena arena_;
  std::vector<float> statistics_, initial_states_, states_;
  Buffer<float> device_statistics_, device_states_;
  std::vector<std::int32_t> lengths_;
  bool has_input_gradient_;
  std::unique_ptr<GraphPlan> plan_;
  Buffer<float> workspace_;
};

/// Distinct values that are multiples of `spacing` away from 0 by half a spacing at least, in random order: a change by
/// less than half a spacing crosses no kink of ReLU and changes no maximum.
std::vector<float> spaced_values(std::size_t count, float spacing, std::uint64_t seed);
std::vector<float> random_values(std::size_t count, std::uint64_t seed);

/// Largest difference between backward's gradients (all parameters, and the input) and central differences of the loss
/// sum_i weight_i output_i (in float64, random weights), each tensor's relative to its largest gradient or 1.
double gradient_error(GraphHarness& harness, const std::vector<float>& input, double step = 1e-2);

}  // namespace dragonn::layers::test

// SPDX-License-Identifier: MIT
#include <algorithm>

#include <doctest/doctest.h>

#include "kernels/nn/elementwise.h"
#include "layers/graph_schedule.h"
#include "layers/layers.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/devices.h"

namespace dragonn::layers {
namespace {

using test::GraphHarness;
using Values = std::vector<float>;

/// Two square linear layers that share their weights, each with a bias of its own.
GraphHarness tied_layers(std::size_t batch) {
  auto graph = std::make_unique<LayerGraph>(Shape{2});
  const NodeId first = graph->add("first", linear({.outputs = 2, .bias = false}), {LayerGraph::input()});
  graph->add("second", linear({.outputs = 2}), {first}, first);
  return GraphHarness(std::move(graph), batch);
}

struct Counts {
  int forward = 0, backward = 0;
};

/// Doubles its input, and counts how often it is asked to.
Layer counting_layer(Counts& counts) {
  return {.kind = "counting",
          .output_shape = [](Shapes inputs) { return inputs[0]; },
          .plan =
              [&](const PlanContext&) {
                return layer_plan(
                    [&](const ForwardPass& pass) {
                      ++counts.forward;
                      kernels::add(pass.inputs[0], pass.inputs[0], pass.output);
                    },
                    [&](const BackwardPass& pass) {
                      ++counts.backward;
                      kernels::add(pass.output_gradients[0], pass.output_gradients[0], pass.input_gradients[0]);
                    });
              }};
}

}  // namespace

TEST_SUITE("layers") {
  TEST_CASE("hidden matrices are the weights of linear maps between layers with parameters") {
    LayerGraph graph(Shape{6});
    NodeId node = graph.add("first", linear({.outputs = 4}), {LayerGraph::input()});
    const NodeId tied = node =
        graph.add("tied", linear({.outputs = 4}), {graph.add("relu", activation(kernels::Activation::kRelu), {node})});
    node = graph.add("norm", layer_norm(), {node});
    node = graph.add("hidden", linear({.outputs = 5}), {node});
    node = graph.add("back", linear({.outputs = 4}), {node});
    node = graph.add("output", linear({.outputs = 4}), {node}, tied);
    graph.add("end", activation(kernels::Activation::kRelu), {node});
    std::vector<std::string> hidden;
    const std::vector<ParameterRole> roles = graph.roles();
    for (std::size_t i = 0; i < roles.size(); ++i)
      if (roles[i] == ParameterRole::kHiddenMatrix) hidden.push_back(graph.parameters()[i].name);
    CHECK(hidden == std::vector<std::string>{"hidden.weight", "back.weight"});
  }

  DRAGONN_DEVICE_TEST("a GPU is asked for the passes of a plan twice, or again where they have lengths or listeners") {
    Counts counts;
    auto graph = std::make_unique<LayerGraph>(Shape{3});
    graph->add("counting", counting_layer(counts), {LayerGraph::input()});
    GraphHarness harness(std::move(graph), 1, device);
    const auto passes = [&](float value) {
      CHECK(harness.forward({value, 2, 3}) == Values{2 * value, 4, 6});
      kernels::copy(View<const float>(Values{value, 1, 1}), harness.plan().output_gradient());
      harness.plan().backward({});
      CHECK(harness.input_gradient() == Values{2 * value, 2, 2});
    };
    for (int i = 1; i <= 5; ++i) passes(static_cast<float>(i));
    const int asked = device.is_cpu() ? 5 : 2;
    CHECK(counts.forward == asked);
    CHECK(counts.backward == asked);
    harness.backward({1, 1, 1});  // tells what is final
    CHECK(counts.backward == asked + 1);
    harness.set_lengths({1});
    harness.forward({1, 2, 3});
    CHECK(counts.forward == asked + 1);
  }

  TEST_CASE("memory blocks that live at the same time do not overlap, others share") {
    MemoryPlanner planner;
    const auto a = planner.add(100, 0, 2), b = planner.add(50, 1, 3), c = planner.add(90, 3, 4);
    planner.place();
    CHECK(planner.offset(a) == 0);
    CHECK(planner.offset(b) == 112);  // whole cache lines
    CHECK(planner.offset(c) == 0);
    CHECK(planner.total() == 176);
    CHECK(planner.live_at(1) == 176);
    CHECK(planner.live_at(4) == 96);
  }

  TEST_CASE("parameters are reported once each, last layer first") {
    auto graph = std::make_unique<LayerGraph>(Shape{4, 4, 2});
    NodeId last = graph->add("conv", convolution(square_convolution(3, 3, 1, 1)), {LayerGraph::input()});
    last = graph->add("norm", batch_norm({.relu = true}), {last});
    last = graph->add("flatten", flatten(), {last});
    graph->add("output", linear({.outputs = 2}), {last});
    GraphHarness harness(std::move(graph), 2);
    harness.forward(test::random_values(harness.input_size(), 1));
    // conv.weight 0, norm.weight 1, norm.bias 2, output.weight 3, output.bias 4
    CHECK(harness.backward(test::random_values(harness.output_size(), 2)) == std::vector<ParameterId>{3, 4, 1, 2, 0});
  }

  TEST_CASE("a tied parameter sums its layers' gradients and is reported after the last of them") {
    GraphHarness harness = tied_layers(1);
    harness.set("first.weight", {1, 2, 3, 4});
    CHECK(harness.forward({1, 1}) == Values{17, 37});
    // first.weight 0, second.bias 1: the weight waits for the first layer.
    CHECK(harness.backward({1, 0}) == std::vector<ParameterId>{1, 0});
    // Second layer: [3 7; 0 0]. First: W^T [1 0] = [1 2] times the input: [1 1; 2 2].
    CHECK(harness.gradient("first.weight") == Values{4, 8, 2, 2});
    CHECK(test::gradient_error(harness, {0.5f, -1}) < 2e-3);
  }

  TEST_CASE("a view of a value that is read later keeps it alive") {
    auto graph = std::make_unique<LayerGraph>(Shape{2, 2});
    const NodeId flat = graph->add("flat", flatten(), {LayerGraph::input()});
    const NodeId relu = graph->add("relu", activation(kernels::Activation::kRelu), {flat});
    graph->add("sum", residual_add(false), {relu, flat});
    GraphHarness harness(std::move(graph), 1);
    CHECK(harness.forward({-1, 2, -3, 4}) == Values{-1, 4, -3, 8});
  }

  TEST_CASE("layers that can work in place take no memory of their own") {
    const auto workspace = [](int activations, Mode mode) {
      auto graph = std::make_unique<LayerGraph>(Shape{64});
      NodeId last = graph->add("linear", linear({.outputs = 64}), {LayerGraph::input()});
      for (int i = 0; i < activations; ++i)
        last = graph->add("relu" + std::to_string(i), activation(kernels::Activation::kRelu), {last});
      return GraphHarness(std::move(graph), 8, {}, mode).plan().workspace_floats();
    };
    CHECK(workspace(1, Mode::kTrain) == workspace(0, Mode::kTrain));
    CHECK(workspace(3, Mode::kEvaluate) == workspace(0, Mode::kEvaluate));
  }

  TEST_CASE("an output that nothing reads is an error") {
    auto graph = std::make_unique<LayerGraph>(Shape{2});
    graph->add("lost", linear({.outputs = 2}), {LayerGraph::input()});
    graph->add("output", linear({.outputs = 2}), {LayerGraph::input()});
    CHECK_THROWS_WITH(GraphPlan(*graph, 1, Mode::kTrain), doctest::Contains("nothing reads the output of layer lost"));
  }

  TEST_CASE("training operations leave out the first layer's input gradient") {
    LayerGraph graph({4, 4, 3});
    NodeId last = graph.add("conv", convolution(square_convolution(2, 3, 1, 1)), {LayerGraph::input()});
    last = graph.add("flatten", flatten(), {last});
    graph.add("output", linear({.outputs = 5}), {last});
    const double conv = 2.0 * 16 * 2 * 27, output = 2.0 * 32 * 5;
    CHECK(graph.training_flops() == 2 * conv + 3 * output);
  }
}

}  // namespace dragonn::layers

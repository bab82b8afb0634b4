// SPDX-License-Identifier: MIT
/// Values that backward computes again instead of keeping them: the same bits, in less memory.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/nn/elementwise.h"
#include "layers/graph_schedule.h"
#include "layers/layers.h"
#include "layers/models/blocks.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/devices.h"

namespace dragonn::layers {
namespace {

using test::GraphHarness;
using Graph = std::unique_ptr<LayerGraph>;

Graph transformer(bool norm_first) {
  auto graph = std::make_unique<LayerGraph>(Shape{6, 8});
  NodeId last = graph->add("position", position_embedding(6), {LayerGraph::input()});
  for (const char* name : {"a", "b"})
    last = add_transformer_block(
        *graph, last, {.name = name, .heads = 2, .feed_forward = 32, .dropout = 0.3, .norm_first = norm_first});
  last = graph->add("norm", layer_norm(), {last});
  graph->add("output", linear({.outputs = 5}), {last});
  return graph;
}

/// A block with a view, and with layers in place of which backward reads the output.
Graph views() {
  auto graph = std::make_unique<LayerGraph>(Shape{4, 6});
  const NodeId first = graph->add("first", linear({.outputs = 6}), {LayerGraph::input()});
  NodeId last = graph->add("tanh", activation(kernels::Activation::kTanh), {first});
  const NodeId flat = graph->add("flat", flatten(), {last});
  last = graph->add("gelu", activation(kernels::Activation::kGelu), {flat});
  last = graph->add("linear", linear({.outputs = 24}), {last});
  last = graph->add("relu", activation(kernels::Activation::kRelu), {last});
  last = graph->add("sum", residual_add(true), {last, flat});
  last = graph->add("end", linear({.outputs = 7}), {last});
  graph->make_block(first);
  graph->add("output", linear({.outputs = 3}), {last});
  return graph;
}

struct Results {
  std::vector<float> output, gradients, input_gradient;
  std::vector<ParameterId> order;
  std::size_t floats;

  bool operator==(const Results& other) const {
    return output == other.output && gradients == other.gradients && input_gradient == other.input_gradient &&
           order == other.order;
  }
};
Results run(Graph graph, Recompute recompute, const Device& device, const std::vector<std::int32_t>& lengths = {}) {
  check_recompute(*graph, recompute);
  GraphHarness harness(std::move(graph), 2, device, Mode::kTrain, true, kernels::ElementType::kFloat32,
                       {.recompute = recompute});
  harness.set_random_parameters();
  harness.set_lengths(lengths);
  Results results;
  for (int step = 0; step < 3; ++step) {  // a GPU replays the third
    results.output = harness.forward(test::random_values(harness.input_size(), 1));
    results.order = harness.backward(test::random_values(harness.output_size(), 2));
  }
  results.gradients = dragonn::test::to_host(harness.arena().gradients());
  results.input_gradient = harness.input_gradient();
  results.floats = harness.plan().workspace_floats();
  return results;
}

/// Copies its input, and counts how often forward does.
Layer counting_layer(int& count, bool backward_reads_inputs) {
  return {.kind = "counting",
          .traits = {.backward_reads_inputs = backward_reads_inputs},
          .output_shape = [](Shapes inputs) { return inputs[0]; },
          .plan =
              [&](const PlanContext&) {
                return layer_plan(
                    [&](const ForwardPass& pass) {
                      ++count;
                      kernels::copy(pass.inputs[0], pass.output);
                    },
                    [](const BackwardPass& pass) { kernels::copy(pass.output_gradients[0], pass.input_gradients[0]); });
              }};
}

}  // namespace

TEST_SUITE("layers") {
  DRAGONN_DEVICE_TEST("what is computed again has the same bits, in less memory") {
    for (const bool norm_first : {true, false})
      for (const bool shorter : {false, true}) {
        CAPTURE(norm_first);
        CAPTURE(shorter);
        const auto of = [&](Recompute recompute) {
          const std::vector<std::int32_t> lengths{5, 2};
          return run(transformer(norm_first), recompute, device, shorter ? lengths : std::vector<std::int32_t>());
        };
        const Results none = of(Recompute::kNone), elementwise = of(Recompute::kElementwise),
                      block = of(Recompute::kBlock);
        CHECK(elementwise == none);
        CHECK(block == none);
        CHECK(elementwise.floats < none.floats);
        CHECK(block.floats < elementwise.floats);
      }
  }

  DRAGONN_DEVICE_TEST("views, and layers that work in place, are computed again") {
    const Results none = run(views(), Recompute::kNone, device);
    CHECK(run(views(), Recompute::kBlock, device) == none);
    CHECK(run(views(), Recompute::kElementwise, device) == none);
  }

  TEST_CASE("a layer runs again only if backward reads what follows from it, and an evaluation keeps nothing anyway") {
    for (const bool reads : {false, true}) {
      int first = 0, second = 0, last = 0;
      const auto graph = [&] {
        auto made = std::make_unique<LayerGraph>(Shape{3});
        const NodeId linear1 = made->add("linear", linear({.outputs = 3}), {LayerGraph::input()});
        const NodeId a = made->add("first", counting_layer(first, false), {linear1});
        const NodeId b = made->add("second", counting_layer(second, false), {a});
        const NodeId c = made->add("last", counting_layer(last, reads), {b});  // its input is `second`'s output
        made->make_block(a);
        made->add("output", linear({.outputs = 2}), {c});
        return made;
      };
      GraphHarness training(graph(), 1, {}, Mode::kTrain, false, kernels::ElementType::kFloat32,
                            {.recompute = Recompute::kBlock});
      training.forward({1, 2, 3});
      CHECK(first == 1);
      training.backward({1, 1});
      CHECK(first == (reads ? 2 : 1));
      CHECK(second == (reads ? 2 : 1));
      CHECK(last == 1);  // a layer outside of the block reads its output: it stays
      GraphHarness evaluation(graph(), 1, {}, Mode::kEvaluate, false, kernels::ElementType::kFloat32,
                              {.recompute = Recompute::kBlock});
      evaluation.forward({1, 2, 3});
      CHECK(last == 2);
    }
  }

  TEST_CASE("a network without what could be computed again, or with state in a block, is refused in one line") {
    LayerGraph plain(Shape{4});
    plain.add("output", linear({.outputs = 2}), {LayerGraph::input()});
    CHECK_NOTHROW(check_recompute(plain, Recompute::kNone));
    CHECK_THROWS_WITH_AS(check_recompute(plain, Recompute::kBlock),
                         "train.recompute = \"block\": the network has no blocks; expected \"none\"", ConfigError);
    CHECK_THROWS_WITH_AS(check_recompute(plain, Recompute::kElementwise),
                         "train.recompute = \"elementwise\": the network has no layer norm or GELU; expected \"none\"",
                         ConfigError);
    LayerGraph stateful(Shape{4, 4, 3});
    stateful.make_block(stateful.add("norm", batch_norm({}), {LayerGraph::input()}));
    CHECK_THROWS_WITH_AS(check_recompute(stateful, Recompute::kBlock),
                         doctest::Contains("layer norm (batch norm) has state"), ConfigError);
  }
}

}  // namespace dragonn::layers

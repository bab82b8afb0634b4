// SPDX-License-Identifier: MIT
/// Central-difference checks of every layer, at batch 1 and 3 and odd shapes.
#include <functional>

#include <doctest/doctest.h>

#include "layers/layers.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/devices.h"

namespace dragonn::layers {
namespace {

using test::GraphHarness;

// Forward rounds to float32: about 1e-7 of the outputs, which a division by the step of 1e-2 makes 1e-5 for each of up
// to some hundred terms; the truncation error of a central difference is of the order of step^2 = 1e-4.
constexpr double kTolerance = 2e-3;

using Build = std::function<void(LayerGraph&)>;

double error_of(const Device& device, const Shape& sample, std::size_t batch, const Build& build) {
  auto graph = std::make_unique<LayerGraph>(sample);
  build(*graph);
  GraphHarness harness(std::move(graph), batch, device);
  harness.set_random_parameters();  // those that start at 0 or 1 would hide errors
  return test::gradient_error(harness, test::spaced_values(harness.input_size(), 0.05f, 3));
}

void check(const Device& device, const Shape& sample, const Build& build) {
  for (const std::size_t batch : {std::size_t{1}, std::size_t{3}}) {
    CAPTURE(batch);
    CAPTURE(sample.to_string());
    CHECK(error_of(device, sample, batch, build) < kTolerance);
  }
}

Build one(const std::function<Layer()>& layer) {
  return [layer](LayerGraph& graph) { graph.add("layer", layer(), {LayerGraph::input()}); };
}

ConvolutionSettings odd_convolution(std::int64_t stride, std::int64_t padding, std::int64_t groups, bool bias) {
  ConvolutionSettings settings;
  settings.outputs = 6;
  settings.vertical = {3, stride, padding};
  settings.horizontal = {2, 1, padding};
  settings.groups = groups;
  settings.bias = bias;
  return settings;
}

}  // namespace

TEST_SUITE("layers") {
  DRAGONN_DEVICE_TEST("the gradients of a linear layer are right") {
    check(device, {7}, one([] { return linear({.outputs = 5}); }));
    check(device, {17}, one([] { return linear({.outputs = 3, .bias = false}); }));
  }

  DRAGONN_DEVICE_TEST("the gradients of a convolution are right for any stride, padding and groups") {
    for (const std::int64_t groups : {1, 3})
      for (const std::int64_t stride : {1, 2})
        for (const std::int64_t padding : {0, 1}) {
          CAPTURE(groups);
          CAPTURE(stride);
          CAPTURE(padding);
          check(device, {5, 4, 3},
                one([=] { return convolution(odd_convolution(stride, padding, groups, groups == 1)); }));
        }
  }

  DRAGONN_DEVICE_TEST("the gradients of a convolution with many output pixels are right") {
    check(device, {6, 7, 2}, one([] { return convolution(square_convolution(17, 3, 1, 1)); }));
    check(device, {5, 9, 1}, one([] { return convolution(square_convolution(3, 1, 1, 0)); }));
  }

  DRAGONN_DEVICE_TEST("the gradients of batch norm are right") {
    // With fewer than a few samples per channel the output hardly depends on the input and the check says little.
    check(device, {5, 3, 3}, one([] { return batch_norm({}); }));
    check(device, {2, 5, 21}, one([] { return batch_norm({}); }));
  }

  DRAGONN_DEVICE_TEST("the gradients of batch norm with a residual are right") {
    check(device, {5, 3, 3}, [](LayerGraph& graph) {
      const NodeId branch = graph.add("branch", activation(kernels::Activation::kTanh), {LayerGraph::input()});
      graph.add("layer", batch_norm({.residual = true}), {LayerGraph::input(), branch});
    });
  }

  DRAGONN_DEVICE_TEST("the gradients of activations are right") {
    for (const auto kind : {kernels::Activation::kRelu, kernels::Activation::kClippedRelu, kernels::Activation::kTanh,
                            kernels::Activation::kSigmoid, kernels::Activation::kGelu, kernels::Activation::kGeluTanh})
      check(device, {3, 7}, one([kind] { return activation(kind); }));
  }

  DRAGONN_DEVICE_TEST("the gradients of lookahead and of views of sequences are right") {
    check(device, {6, 5}, one([] { return lookahead(3); }));
    check(device, {2, 3}, one([] { return lookahead(4); }));
    check(device, {4, 3}, [](LayerGraph& graph) {
      const NodeId image = graph.add("image", add_channel(), {LayerGraph::input()});
      const NodeId conv = graph.add("conv", convolution(odd_convolution(1, 1, 1, true)), {image});
      graph.add("frames", merge_channels(), {conv});
    });
    check(device, {3, 2, 4}, [](LayerGraph& graph) {
      const NodeId steps = graph.add("steps", merge_pixels(), {LayerGraph::input()});
      const NodeId linears = graph.add("linear", linear({.outputs = 5}), {steps});
      const NodeId pixels = graph.add("pixels", steps_to_pixels(), {linears});
      graph.add("pool", global_average_pooling(), {pixels});
    });
  }

  DRAGONN_DEVICE_TEST("the gradients of masked steps are zero behind the lengths") {
    auto graph = std::make_unique<LayerGraph>(Shape{6, 2});
    const NodeId image = graph->add("image", add_channel(), {LayerGraph::input()});
    ConvolutionSettings shortening = odd_convolution(2, 1, 1, true);
    const NodeId conv = graph->add("conv", convolution(shortening), {image});
    graph->add("mask", mask_steps(), {conv});
    GraphHarness harness(std::move(graph), 3, device);
    harness.set_lengths({6, 3, 0});
    CHECK(test::gradient_error(harness, test::random_values(harness.input_size(), 3)) < kTolerance);
    // Lengths 6, 3 and 0 of the input are 3, 2 and 0 of the output's 3 steps.
    const std::vector<float> output = harness.forward(test::random_values(harness.input_size(), 3));
    CHECK(std::ranges::equal(harness.plan().output_lengths(), std::vector<std::int32_t>{3, 2, 0}));
    const std::size_t step = output.size() / 9;
    for (std::size_t i = 0; i < output.size(); ++i) {
      const std::size_t sample = i / (3 * step), t = i / step % 3;
      CHECK((output[i] == 0) == (static_cast<std::int32_t>(t) >= harness.plan().output_lengths()[sample]));
    }
  }

  DRAGONN_DEVICE_TEST("the gradients of layer norm, of positions and of swapped axes are right") {
    check(device, {5, 7}, one([] { return layer_norm(); }));
    check(device, {4, 6}, one([] { return position_embedding(9); }));
    check(device, {5, 3}, one([] { return swap_axes(); }));
    auto first = std::make_unique<LayerGraph>(Shape{3, 5});  // whose input nobody wants the gradient of
    first->add("norm", layer_norm(), {LayerGraph::input()});
    GraphHarness harness(std::move(first), 2, device, Mode::kTrain, false);
    CHECK(test::gradient_error(harness, test::random_values(harness.input_size(), 3)) < kTolerance);
  }

  DRAGONN_DEVICE_TEST("the gradients of attention are right with any mask") {
    for (const bool causal : {false, true})
      for (const std::vector<std::int32_t>& lengths : {std::vector<std::int32_t>{}, {5, 2, 0}, {1, 4, 5}}) {
        CAPTURE(causal);
        CAPTURE(lengths.size());
        auto graph = std::make_unique<LayerGraph>(Shape{5, 12});
        graph->add("layer", attention(2, causal), {LayerGraph::input()});
        GraphHarness harness(std::move(graph), 3, device);
        harness.set_lengths(lengths);
        CHECK(test::gradient_error(harness, test::random_values(harness.input_size(), 3)) < kTolerance);
      }
  }

  DRAGONN_DEVICE_TEST("attention looks at no padding and at nothing to come") {
    const auto forward = [&](bool causal, const std::vector<std::int32_t>& lengths, const std::vector<float>& input) {
      auto graph = std::make_unique<LayerGraph>(Shape{4, 6});
      graph->add("layer", attention(1, causal), {LayerGraph::input()});
      GraphHarness harness(std::move(graph), 1, device);
      harness.set_lengths(lengths);
      return harness.forward(input);
    };
    const std::vector<float> input = test::random_values(24, 3);
    std::vector<float> other = input;
    std::fill(other.begin() + 12, other.end(), 9.0f);  // the last two steps
    const std::vector<float> causal = forward(true, {}, input), causal_other = forward(true, {}, other);
    CHECK(std::equal(causal.begin(), causal.begin() + 4, causal_other.begin()));
    CHECK(causal != causal_other);
    const std::vector<float> padded = forward(false, {2}, input);
    CHECK(padded == forward(false, {2}, other));
    CHECK(std::all_of(padded.begin() + 4, padded.end(), [](float value) { return value == 0; }));
    // The first step of a causal sequence sees itself alone: its value.
    CHECK(causal[0] == doctest::Approx(input[4]));
    CHECK(causal[1] == doctest::Approx(input[5]));
  }

  DRAGONN_DEVICE_TEST("the gradients of pooling are right with padding and overhanging windows") {
    check(device, {5, 4, 3}, one([] { return max_pooling({2, 2, 0, true}); }));
    check(device, {5, 7, 2}, one([] { return max_pooling({3, 2, 1}); }));
    check(device, {5, 4, 3}, one([] { return average_pooling({2, 2, 0, true}); }));
    check(device, {5, 7, 2}, one([] { return average_pooling({3, 2, 1}); }));
    check(device, {5, 3, 4}, one([] { return global_average_pooling(); }));
  }

  DRAGONN_DEVICE_TEST("the gradients of local response normalization are right") {
    // Far from the default, so that neighbours matter.
    const LocalResponseSettings settings{.size = 3, .alpha = 2, .beta = 0.6f, .k = 1.5f};
    check(device, {2, 3, 5}, one([=] { return local_response(settings); }));
    check(device, {3, 1, 2}, one([=] { return local_response(settings); }));
    check(device, {2, 2, 17}, one([] { return local_response({.alpha = 3}); }));
  }

  DRAGONN_DEVICE_TEST("the gradients of concatenated and of scaled channels are right") {
    check(device, {3, 5, 2}, [](LayerGraph& graph) {
      const NodeId left = graph.add("left", convolution(square_convolution(3, 3, 1, 1)), {LayerGraph::input()});
      const NodeId right = graph.add("right", activation(kernels::Activation::kTanh), {LayerGraph::input()});
      graph.add("layer", concatenate(), {left, LayerGraph::input(), right});
    });
    check(device, {3, 5, 4}, [](LayerGraph& graph) {
      const NodeId pool = graph.add("pool", global_average_pooling(), {LayerGraph::input()});
      const NodeId flat = graph.add("flatten", flatten(), {pool});
      const NodeId factors = graph.add("factors", activation(kernels::Activation::kSigmoid), {flat});
      graph.add("layer", scale_channels(), {LayerGraph::input(), factors});
    });
  }

  DRAGONN_DEVICE_TEST("the gradients of dropout, flatten and shortcuts are right") {
    check(device, {4, 3, 5}, one([] { return dropout(0.4); }));
    check(device, {3, 2, 4}, [](LayerGraph& graph) {
      const NodeId flat = graph.add("flatten", flatten(), {LayerGraph::input()});
      graph.add("output", linear({.outputs = 2}), {flat});
    });
    check(device, {5, 4, 3}, one([] { return padded_shortcut(7, 2); }));
  }

  DRAGONN_DEVICE_TEST("the gradients of a residual add are right, also of a value added to itself") {
    for (const bool relu : {false, true}) {
      check(device, {3, 5}, [relu](LayerGraph& graph) {
        const NodeId branch = graph.add("branch", activation(kernels::Activation::kTanh), {LayerGraph::input()});
        graph.add("layer", residual_add(relu), {branch, LayerGraph::input()});
      });
      check(device, {3, 5}, [relu](LayerGraph& graph) {
        graph.add("layer", residual_add(relu), {LayerGraph::input(), LayerGraph::input()});
      });
    }
  }

  DRAGONN_DEVICE_TEST("the gradient of a value with three readers is their sum") {
    check(device, {4, 3, 3}, [](LayerGraph& graph) {
      const NodeId first = graph.add("first", convolution(square_convolution(3, 3, 1, 1)), {LayerGraph::input()});
      const NodeId left = graph.add("left", activation(kernels::Activation::kTanh), {first});
      const NodeId right = graph.add("right", activation(kernels::Activation::kSigmoid), {first});
      const NodeId sum = graph.add("sum", residual_add(false), {left, right});
      graph.add("total", residual_add(false), {first, sum});
    });
  }

  DRAGONN_DEVICE_TEST("batch norm sums the gradients of two readers") {
    check(device, {5, 3, 3}, [](LayerGraph& graph) {
      const NodeId norm = graph.add("norm", batch_norm({}), {LayerGraph::input()});
      const NodeId left = graph.add("left", activation(kernels::Activation::kTanh), {norm});
      const NodeId right = graph.add("right", convolution(square_convolution(3, 3, 1, 1)), {norm});
      graph.add("sum", residual_add(false), {left, right});
    });
  }
}

}  // namespace dragonn::layers

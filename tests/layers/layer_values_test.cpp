// SPDX-License-Identifier: MIT
/// Tests of forward and backward of every layer against values worked out by hand.
#include <cmath>

#include <doctest/doctest.h>

#include "layers/layers.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/devices.h"

namespace dragonn::layers {
namespace {

using test::GraphHarness;
using Values = std::vector<float>;

GraphHarness single(const Device& device, const Shape& sample, Layer layer, std::size_t batch,
                    Mode mode = Mode::kTrain) {
  auto graph = std::make_unique<LayerGraph>(sample);
  graph->add("layer", std::move(layer), {LayerGraph::input()});
  return GraphHarness(std::move(graph), batch, device, mode);
}

/// Compares values that involve a square root or a transcendental function.
void check_close(const Values& values, const Values& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

}  // namespace

TEST_SUITE("layers") {
  DRAGONN_DEVICE_TEST("a linear layer multiplies by the transposed weights and adds the bias") {
    GraphHarness layer = single(device, {2}, linear({.outputs = 3}), 2);
    layer.set("layer.weight", {1, 2, 3, 4, 5, 6});
    layer.set("layer.bias", {10, 20, 30});
    CHECK(layer.forward({1, 1, 2, -1}) == Values{13, 27, 41, 10, 22, 34});
    layer.backward({1, 0, 0, 0, 1, 2});
    CHECK(layer.gradient("layer.weight") == Values{1, 1, 2, -1, 4, -2});
    CHECK(layer.gradient("layer.bias") == Values{1, 1, 2});
    CHECK(layer.input_gradient() == Values{1, 2, 13, 16});
  }

  DRAGONN_DEVICE_TEST("concatenation puts the channels of its inputs one behind the other") {
    auto graph = std::make_unique<LayerGraph>(Shape{1, 2, 2});
    const NodeId pool = graph->add("pool", max_pooling({1, 1, 0}), {LayerGraph::input()});
    graph->add("layer", concatenate(), {LayerGraph::input(), pool});
    GraphHarness layer(std::move(graph), 1, device);
    CHECK(layer.forward({1, 2, 3, 4}) == Values{1, 2, 1, 2, 3, 4, 3, 4});
    layer.backward({1, 2, 3, 4, 5, 6, 7, 8});
    CHECK(layer.input_gradient() == Values{4, 6, 12, 14});
    const Shape shapes[] = {{1, 2, 2, 1}, {1, 2, 3, 1}};
    CHECK_THROWS_AS(concatenate().output_shape(shapes), ShapeError);
  }

  DRAGONN_DEVICE_TEST("channels are scaled by the factors of their sample") {
    auto graph = std::make_unique<LayerGraph>(Shape{1, 2, 2});
    const NodeId pool = graph->add("pool", global_average_pooling(), {LayerGraph::input()});
    const NodeId means = graph->add("flatten", flatten(), {pool});
    graph->add("layer", scale_channels(), {LayerGraph::input(), means});
    GraphHarness layer(std::move(graph), 2, device);
    CHECK(layer.forward({1, 2, 3, 6, 0, 2, 2, 0}) == Values{2, 8, 6, 24, 0, 2, 2, 0});
    layer.backward({1, 0, 0, 1, 1, 1, 1, 1});
    // The factor times the gradient; and half of the sum over the pixels of value times gradient.
    CHECK(layer.input_gradient() == Values{2 + 0.5f, 3, 0.5f, 4 + 3, 2, 2, 2, 2});
    const Shape shapes[] = {{1, 2, 2, 3}, {1, 2}};
    CHECK_THROWS_AS(scale_channels().output_shape(shapes), ShapeError);
  }

  DRAGONN_DEVICE_TEST("local response normalization divides by the neighbours' squares") {
    const LocalResponseSettings settings{.size = 3, .alpha = 3, .beta = 1, .k = 1};
    GraphHarness layer = single(device, {1, 1, 3}, local_response(settings), 1);
    check_close(layer.forward({1, 2, 3}), {1.0f / 6, 2.0f / 15, 3.0f / 14});
    CHECK_THROWS_AS(local_response({.size = 4}), ConfigError);
  }

  DRAGONN_DEVICE_TEST("a convolution correlates with its HWIO weights") {
    ConvolutionSettings settings = square_convolution(1, 2, 1, 0);
    settings.bias = true;
    GraphHarness layer = single(device, {2, 3, 1}, convolution(settings), 1);
    layer.set("layer.weight", {1, 2, 3, 4});  // rows of the window
    layer.set("layer.bias", {100});
    CHECK(layer.forward({1, 2, 3, 4, 5, 6}) == Values{137, 147});
    layer.backward({1, 10});
    CHECK(layer.gradient("layer.weight") == Values{21, 32, 54, 65});
    CHECK(layer.gradient("layer.bias") == Values{11});
    CHECK(layer.input_gradient() == Values{1, 12, 20, 3, 34, 40});
  }

  DRAGONN_DEVICE_TEST("a strided convolution with padding sees zeros outside") {
    GraphHarness layer = single(device, {3, 3, 1}, convolution(square_convolution(1, 3, 2, 1)), 1);
    layer.set("layer.weight", {1, 2, 3, 4, 5, 6, 7, 8, 9});
    CHECK(layer.forward({1, 0, 0, 0, 1, 0, 0, 0, 1}) == Values{14, 7, 3, 6});
  }

  DRAGONN_DEVICE_TEST("groups of a convolution see their own channels only") {
    ConvolutionSettings settings = square_convolution(2, 1, 1, 0);
    settings.groups = 2;
    GraphHarness layer = single(device, {1, 1, 4}, convolution(settings), 1);
    layer.set("layer.weight", {1, 10, 2, 20});  // [input of the group][output]
    CHECK(layer.forward({1, 2, 3, 4}) == Values{5, 110});
  }

  DRAGONN_DEVICE_TEST("batch norm in training uses the batch's moments and updates the running ones") {
    GraphHarness layer = single(device, {2, 1}, batch_norm({.epsilon = 0}), 2);  // four rows of one channel
    layer.set("layer.weight", {2});
    layer.set("layer.bias", {1});
    check_close(layer.forward({1, 1, 3, 3}), {-1, -1, 3, 3});
    // Mean 2, unbiased variance 4/3; a tenth of each goes to the running values.
    check_close(layer.statistics(), {0.2f, 0.9f + 0.4f / 3});
    layer.backward({1, 0, 0, 0});
    check_close(layer.gradient("layer.weight"), {-1});
    check_close(layer.gradient("layer.bias"), {1});
    // 2 * (g - mean(g) - xhat * mean(g * xhat)) with xhat = -1, -1, 1, 1.
    check_close(layer.input_gradient(), {1, -1, 0, 0});
  }

  DRAGONN_DEVICE_TEST("batch norm in evaluation uses the running moments and leaves them") {
    GraphHarness layer = single(device, {1, 1}, batch_norm({.epsilon = 0}), 2, Mode::kEvaluate);
    layer.statistics() = {1, 4};
    layer.set("layer.weight", {3});
    CHECK(layer.forward({1, 5}) == Values{0, 6});
    CHECK(layer.statistics() == Values{1, 4});
  }

  DRAGONN_DEVICE_TEST("batch norm fused with ReLU and residual equals its parts") {
    const auto build = [&](bool fused, std::int64_t channels) {
      auto graph = std::make_unique<LayerGraph>(Shape{3, 5, channels});
      const NodeId side = graph->add("side", activation(kernels::Activation::kTanh), {LayerGraph::input()});
      if (fused) {
        const NodeId inner = graph->add("inner", batch_norm({.relu = true}), {LayerGraph::input()});
        graph->add("outer", batch_norm({.relu = true, .residual = true}), {inner, side});
      } else {
        NodeId inner = graph->add("inner", batch_norm({}), {LayerGraph::input()});
        inner = graph->add("relu", activation(kernels::Activation::kRelu), {inner});
        const NodeId outer = graph->add("outer", batch_norm({}), {inner});
        graph->add("sum", residual_add(true), {outer, side});
      }
      return GraphHarness(std::move(graph), 2, device);
    };
    for (const std::int64_t channels : {1, 5, 16, 37}) {
      CAPTURE(channels);
      GraphHarness fused = build(true, channels), parts = build(false, channels);
      const Values input = test::random_values(fused.input_size(), 1);
      const Values gradient = test::random_values(fused.output_size(), 2);
      CHECK(fused.forward(input) == parts.forward(input));
      fused.backward(gradient);
      parts.backward(gradient);
      check_close(fused.gradient("inner.weight"), parts.gradient("inner.weight"));
      check_close(fused.gradient("outer.bias"), parts.gradient("outer.bias"));
      CHECK(fused.input_gradient() == parts.input_gradient());
    }
  }

  DRAGONN_DEVICE_TEST("activations have their known values") {
    const Values input{-1, 0, 2};
    const auto sigmoid = [](double x) { return static_cast<float>(1 / (1 + std::exp(-x))); };
    const auto gelu = [](double x) { return static_cast<float>(x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)))); };
    CHECK(single(device, {3}, activation(kernels::Activation::kRelu), 1).forward(input) == Values{0, 0, 2});
    check_close(single(device, {3}, activation(kernels::Activation::kTanh), 1).forward(input),
                {std::tanh(-1.0f), 0, std::tanh(2.0f)});
    check_close(single(device, {3}, activation(kernels::Activation::kSigmoid), 1).forward(input),
                {sigmoid(-1), 0.5f, sigmoid(2)});
    check_close(single(device, {3}, activation(kernels::Activation::kGelu), 1).forward(input), {gelu(-1), 0, gelu(2)});
    const auto gelu_tanh = [](double x) {
      return static_cast<float>(x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
    };
    check_close(single(device, {3}, activation(kernels::Activation::kGeluTanh), 1).forward(input),
                {gelu_tanh(-1), 0, gelu_tanh(2)});
    GraphHarness relu = single(device, {3}, activation(kernels::Activation::kRelu), 1);
    relu.forward({-1, 1, 2});
    relu.backward({5, 6, 7});
    CHECK(relu.input_gradient() == Values{0, 6, 7});
  }

  DRAGONN_DEVICE_TEST("pooling takes the maximum or the mean of what is in the window") {
    const Values image{1, 5, 2, 4, 3, 9, 7, 8, 6};
    GraphHarness maximum = single(device, {3, 3, 1}, max_pooling({2, 2, 0, true}), 1);
    CHECK(maximum.forward(image) == Values{5, 9, 8, 6});
    maximum.backward({1, 2, 3, 4});
    CHECK(maximum.input_gradient() == Values{0, 1, 0, 0, 0, 2, 0, 3, 4});
    GraphHarness average = single(device, {3, 3, 1}, average_pooling({2, 2, 0, true}), 1);
    CHECK(average.forward(image) == Values{3.25f, 5.5f, 7.5f, 6});
    average.backward({4, 2, 2, 1});
    CHECK(average.input_gradient() == Values{1, 1, 1, 1, 1, 1, 1, 1, 1});
    CHECK(single(device, {3, 3, 1}, max_pooling({2, 2}), 1).forward(image) == Values{5});  // without overhang
    CHECK(single(device, {2, 2, 2}, global_average_pooling(), 1).forward({1, 10, 2, 20, 3, 30, 6, 60}) ==
          Values{3, 30});
  }

  DRAGONN_DEVICE_TEST("flatten keeps NHWC order") {
    const Values image{1, 2, 3, 4, 5, 6, 7, 8};
    CHECK(single(device, {2, 2, 2}, flatten(), 1).forward(image) == image);
  }

  DRAGONN_DEVICE_TEST("dropout scales what it keeps, and the gradient with it") {
    GraphHarness layer = single(device, {1000}, dropout(0.75), 1);
    const Values output = layer.forward(Values(1000, 1.0f));
    const auto kept = static_cast<std::size_t>(std::ranges::count(output, 4.0f));
    CHECK(kept + static_cast<std::size_t>(std::ranges::count(output, 0.0f)) == 1000);
    CHECK(kept > 200);  // 250 expected, deviation 14
    CHECK(kept < 300);
    layer.backward(Values(1000, 1.0f));
    CHECK(layer.input_gradient() == output);
    CHECK(single(device, {3}, dropout(0.75), 1, Mode::kEvaluate).forward({1, 2, 3}) == Values{1, 2, 3});
    CHECK_THROWS_AS(dropout(1.0), ConfigError);
  }

  DRAGONN_DEVICE_TEST("a residual add sums its inputs and cuts at zero if asked") {
    auto graph = std::make_unique<LayerGraph>(Shape{3});
    const NodeId relu = graph->add("relu", activation(kernels::Activation::kRelu), {LayerGraph::input()});
    graph->add("sum", residual_add(true), {LayerGraph::input(), relu});
    GraphHarness sum(std::move(graph), 1, device);
    CHECK(sum.forward({-1, 2, 3}) == Values{0, 4, 6});
    sum.backward({1, 1, 2});
    CHECK(sum.input_gradient() == Values{0, 2, 4});
  }

  DRAGONN_DEVICE_TEST("a padded shortcut takes every other pixel and adds zero channels on both sides") {
    GraphHarness layer = single(device, {3, 2, 1}, padded_shortcut(3, 2), 1);
    CHECK(layer.forward({1, 2, 3, 4, 5, 6}) == Values{0, 1, 0, 0, 5, 0});
    layer.backward({1, 2, 3, 4, 5, 6});
    CHECK(layer.input_gradient() == Values{2, 0, 0, 0, 5, 0});
  }

  TEST_CASE("shapes that do not fit name the layer and the shape") {
    LayerGraph graph({2, 2, 3});
    CHECK_THROWS_WITH_AS(graph.add("fc", linear({.outputs = 2}), {LayerGraph::input()}),
                         doctest::Contains("layer fc: linear takes an input of 2 axes"), ShapeError);
    CHECK_THROWS_WITH_AS(graph.add("conv", convolution(square_convolution(4, 3, 1, 0)), {LayerGraph::input()}),
                         doctest::Contains("[1, 2, 2, 3]"), ShapeError);
    ConvolutionSettings grouped = square_convolution(4, 1, 1, 0);
    grouped.groups = 2;
    CHECK_THROWS_AS(graph.add("grouped", convolution(grouped), {LayerGraph::input()}), ShapeError);
    CHECK_THROWS_AS(graph.add("pool", max_pooling({3, 1}), {LayerGraph::input()}), ShapeError);
  }
}

}  // namespace dragonn::layers

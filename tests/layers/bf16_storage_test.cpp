// SPDX-License-Identifier: MIT
/// Layers and networks that keep activations in bf16, against the same ones in float32.
///
/// A bf16 has 8 bits, so rounding to it changes a value by a share of at most u = 2^-8. An operation computes in
/// float32, whose roundings do not count here, and rounds each array that it writes in bf16 once. Inputs and output
/// gradients of the tests of layers are bf16 numbers, and exact. What such a layer returns has then been rounded k
/// times: the copy of the weights, the result, and what lies between (below, by layer). An error in one of these arrays
/// is scaled on its way to the result as the array itself is, if no difference of nearly equal numbers follows: the
/// result's error, by norm, is at most k u of its norm. Where a difference does follow, a comment says by how much the
/// error grows.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/device_math.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"
#include "kernels/typed_view.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "layers/network.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/devices.h"

namespace dragonn::layers {
namespace {

using kernels::DeviceMath;
using kernels::ElementType;
using test::GraphHarness;
using Values = std::vector<float>;
using Build = std::function<void(LayerGraph&)>;

constexpr double kRoundoff = 1.0 / 256;

/// Returns ||values - expected|| / ||expected||.
double relative_error(const Values& values, const Values& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(values.at(i)) - expected[i], 2);
    norm += static_cast<double>(expected[i]) * expected[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

Values rounded(Values values) {
  for (float& value : values) value = kernels::from_bf16(kernels::to_bf16(value));
  return values;
}

/// The most roundings of a layer's output, of the gradient of its input and of the gradients of its parameters.
struct Roundings {
  double output = 1, input = 1, parameters = 0;
};

/// A layer in both types, with equal parameters.
struct Pair {
  Pair(const Device& device, const Shape& sample, const Build& build, bool input_gradient)
      : wide(harness(device, sample, build, input_gradient, ElementType::kFloat32)),
        narrow(harness(device, sample, build, input_gradient, ElementType::kBf16)) {}

  static std::unique_ptr<GraphHarness> harness(const Device& device, const Shape& sample, const Build& build,
                                               bool input_gradient, ElementType type) {
    auto graph = std::make_unique<LayerGraph>(sample);
    build(*graph);
    CHECK(bf16_obstacle(*graph).empty());
    auto made = std::make_unique<GraphHarness>(std::move(graph), 3, device, Mode::kTrain, input_gradient, type);
    made->set_random_parameters();
    return made;
  }

  std::unique_ptr<GraphHarness> wide, narrow;
};

void compare(Pair& pair, const Values& input, const Roundings& roundings) {
  // Where nothing is rounded, sums in float32 differ by their order at most.
  const auto allowed = [](double count) { return count * kRoundoff + 1e-5; };
  CHECK(relative_error(pair.narrow->forward(input), pair.wide->forward(input)) <= allowed(roundings.output));
  const Values gradient = rounded(test::random_values(pair.wide->output_size(), 99));
  pair.wide->backward(gradient);
  pair.narrow->backward(gradient);
  if (pair.wide->has_input_gradient())
    CHECK(relative_error(pair.narrow->input_gradient(), pair.wide->input_gradient()) <= allowed(roundings.input));
  for (const Parameter& parameter : pair.wide->arena().parameters()) {
    CAPTURE(parameter.name);
    CHECK(relative_error(pair.narrow->gradient(parameter.name), pair.wide->gradient(parameter.name)) <=
          allowed(roundings.parameters));
  }
}

void check(const Device& device, const Shape& sample, const Build& build, const Roundings& roundings) {
  if (device.is_cpu()) return;  // which has float32 only
  CAPTURE(sample.to_string());
  Pair pair(device, sample, build, true);
  compare(pair, rounded(test::random_values(pair.wide->input_size(), 3)), roundings);
}

Build one(const std::function<Layer()>& layer) {
  return [layer](LayerGraph& graph) { graph.add("layer", layer(), {LayerGraph::input()}); };
}

/// The settings of a model, and samples for it.
struct Model {
  std::string name;
  Shape sample;
  std::vector<std::pair<std::string, SettingValue>> settings;
  double gradient_error = 0;  ///< allowed, relative
};

/// A network in one precision, on two samples.
struct TrainedNetwork {
  TrainedNetwork(const Device& device, const Model& model, DeviceMath math)
      : network(make(device, model, math)), per_step(network.target_kind() == TargetKind::kClassPerStep) {
    network.initialize(1);
    const ModelEntry& entry = Registry<ModelEntry>::instance().at(model.name);
    inputs = rounded(test::random_values(kSamples * model.sample.size(), 1));
    if (entry.inputs == InputKind::kTokens)
      for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i * 7 % kClasses);
    labels.resize(kSamples * (per_step ? static_cast<std::size_t>(model.sample[0]) : 1));
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i * 3 % kClasses);
    estimate = network.memory(64);  // so that copies of weights count little
  }
  static Network make(const Device& device, const Model& model, DeviceMath math) {
    const ModelEntry& entry = Registry<ModelEntry>::instance().at(model.name);
    Settings settings(entry.settings);
    for (const auto& [key, value] : model.settings) settings.set(key, value);
    return Network(entry.make(settings, {model.sample, kClasses}), 0.0, device, {math});
  }

  double forward() {
    network.reset_state(Mode::kTrain);
    const LossResult loss =
        network.forward({View<const float>(inputs), {View<const std::int32_t>(labels), {}}, kSamples}, Mode::kTrain);
    return loss.loss_sum / static_cast<double>(loss.count);
  }
  Values gradients() { return dragonn::test::to_host(network.arena().gradients()); }
  void descend(float rate) {
    network.backward();
    Values values = dragonn::test::to_host(network.arena().values());
    const Values slopes = gradients();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= rate * slopes[i];
    kernels::transfer(View<const float>(values), network.arena().values());
  }

  static constexpr std::size_t kSamples = 4;
  static constexpr int kClasses = 20;
  Network network;
  bool per_step;
  Values inputs;
  std::vector<std::int32_t> labels;
  MemoryEstimate estimate;
};

}  // namespace

TEST_SUITE("layers") {
  DRAGONN_DEVICE_TEST("in bf16 layers with weights round the copy of the weights and the result") {
    // With a bias a third array is rounded: the bias where cuBLAS adds it to its sums, else the result once more.
    // Gradients of a linear layer's parameters are sums of products of exact numbers; cuDNN rounds those of a
    // convolution's weights.
    check(device, {17}, one([] { return linear({.outputs = 24}); }), {.output = 3, .input = 2});
    check(device, {7, 6}, one([] { return linear({.outputs = 5}); }), {.output = 3, .input = 2});
    check(device, {5, 16}, one([] { return linear({.outputs = 8, .bias = false}); }), {.output = 2, .input = 2});
    ConvolutionSettings settings = square_convolution(16, 3, 1, 1);
    settings.bias = true;
    check(device, {7, 6, 8}, one([&] { return convolution(settings); }), {.output = 3, .input = 2, .parameters = 1});
    settings.groups = 2;
    check(device, {7, 6, 4}, one([&] { return convolution(settings); }), {.output = 3, .input = 2, .parameters = 1});
    // A window that overhangs is a product with patches, whose gradients are rounded before they are added up.
    settings = square_convolution(6, 2, 2, 0);
    settings.vertical.ceil = settings.horizontal.ceil = true;
    check(device, {7, 5, 3}, one([&] { return convolution(settings); }), {.output = 2, .input = 3});
  }

  DRAGONN_DEVICE_TEST("in bf16 normalizations round their results") {
    for (const std::int64_t channels : {3, 8, 24, 264}) {  // in lanes of one channel and of eight
      check(device, {5, 7, channels}, one([] { return batch_norm({}); }), {});
      check(device, {5, 7, channels}, one([] { return batch_norm({.relu = true}); }), {});
      check(device, {5, channels}, one([] { return layer_norm(); }), {});
    }
    // The gradient of both branches passes the ReLU once more; that of `branch` is rounded before.
    check(device, {5, 7, 16},
          [](LayerGraph& graph) {
            const NodeId branch = graph.add("branch", padded_shortcut(16, 1), {LayerGraph::input()});
            graph.add("norm", batch_norm({.relu = true, .residual = true}), {LayerGraph::input(), branch});
          },
          {.output = 1, .input = 3});
    // Both readers' gradients of the norm are rounded, and its output; the norm's gradients are sums of these.
    check(device, {5, 3, 8},
          [](LayerGraph& graph) {
            const NodeId norm = graph.add("norm", batch_norm({}), {LayerGraph::input()});
            const NodeId left = graph.add("left", activation(kernels::Activation::kTanh), {norm});
            const NodeId right = graph.add("right", activation(kernels::Activation::kSigmoid), {norm});
            graph.add("sum", residual_add(false), {left, right});
          },
          {.output = 3, .input = 5, .parameters = 4});
  }

  DRAGONN_DEVICE_TEST("in bf16 elementwise layers, pooling and copies round once or not at all") {
    using kernels::Activation;
    check(device, {5, 7}, one([] { return activation(Activation::kRelu); }), {0, 0});
    check(device, {5, 7}, one([] { return activation(Activation::kClippedRelu); }), {0, 0});
    check(device, {5, 7}, one([] { return activation(Activation::kGelu); }), {1, 1});
    check(device, {5, 7}, one([] { return activation(Activation::kGeluTanh); }), {1, 1});
    // Slopes come from the rounded output y: g (1 - y^2) and g y (1 - y). Where y is near 1, 1 - y changes by more than
    // its share u; the inputs are normal, and the norm of the result has few of these.
    check(device, {5, 7}, one([] { return activation(Activation::kTanh); }), {1, 4});
    check(device, {5, 7}, one([] { return activation(Activation::kSigmoid); }), {1, 4});
    check(device, {6, 8, 3}, one([] { return max_pooling({2, 2, 0}); }), {0, 0});
    check(device, {7, 5, 3}, one([] { return max_pooling({3, 2, 1, true}); }), {0, 1});
    check(device, {7, 5, 3}, one([] { return average_pooling({3, 2, 1}); }), {1, 1});
    check(device, {7, 5, 3}, one([] { return global_average_pooling(); }), {1, 1});
    check(device, {5, 4, 3}, one([] { return padded_shortcut(7, 2); }), {0, 0});
    check(device, {5, 3}, one([] { return swap_axes(); }), {0, 0});
    check(device, {4, 3, 5}, one([] { return dropout(0.4); }), {1, 1});
    for (const bool relu : {false, true})
      check(device, {3, 5},
            [relu](LayerGraph& graph) {
              graph.add("layer", residual_add(relu), {LayerGraph::input(), LayerGraph::input()});
            },
            {1, 1});
  }

  DRAGONN_DEVICE_TEST("in bf16 layers of sequences round their copies and results") {
    check(device, {6, 5}, one([] { return lookahead(3); }), {});
    check(device, {4, 6}, one([] { return position_embedding(9); }), {});
    // The weights and their gradient are rounded, and the scores' gradient, a difference: of the weights' gradients and
    // their weighted mean, whose norm is up to twice that of the difference.
    check(device, {5, 24}, one([] { return attention(2, false); }), {.output = 2, .input = 6});
    // Fused attention takes heads of 8; the emulation refuses forward of five heads, and backward of three.
    for (const std::int64_t heads : {1, 2, 3, 5})
      for (const bool causal : {false, true})
        check(device, {9, 24 * heads}, one([=] { return attention(heads, causal); }), {.output = 2, .input = 6});
    // Inside, recurrent layers compute in float32.
    for (const kernels::Cell cell : {kernels::Cell::kLstm, kernels::Cell::kGru})
      check(device, {5, 6}, one([cell] { return recurrent({.cell = cell, .hidden = 8}); }), {});
    check(device, {5, 6}, one([] { return recurrent({.hidden = 8, .bidirectional = true}); }), {.input = 2});
    if (device.is_cpu()) return;
    Pair pair(device, {7}, one([] { return embedding({.tokens = 1000, .width = 12}); }), false);
    compare(pair, {1, 999, 3, 0, 257, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 997, 998}, {});
  }

  DRAGONN_DEVICE_TEST("networks in bf16 train as in float32, with half the memory for activations") {
    if (device.is_cpu()) return;
    omp_set_num_threads(1);
    // On its way through a model a gradient passes arrays that were rounded: 10 in this LSTM, 80 in this BERT, whose
    // errors of at most u add up in quadrature. In ResNet-20 units change sides of their kink: with inputs off by a
    // share e = 0.5% (40 arrays in quadrature, u / sqrt(12) each) of a normal distribution about 0.4 * 2 e of the
    // units, which changes the gradient by the root of that, 6%, and in 19 layers in quadrature by 27%.
    const Model models[] = {
        {"resnet20", {16, 16, 3}, {}, 0.3},
        {"lstm_lm", {9}, {{"layers", std::int64_t{2}}, {"hidden", std::int64_t{24}}, {"dropout", 0.0}}, 4 * kRoundoff},
        {"bert",
         {9},
         {{"layers", std::int64_t{2}}, {"hidden", std::int64_t{32}}, {"heads", std::int64_t{2}}},
         9 * kRoundoff}};
    for (const Model& model : models) {
      CAPTURE(model.name);
      TrainedNetwork wide(device, model, DeviceMath::kFloat32), narrow(device, model, DeviceMath::kBf16);
      // Copies of weights are small beside the activations of this batch; recurrent layers save float32.
      const double share = model.name == "lstm_lm" ? 1.0 : 0.55;
      CHECK(static_cast<double>(narrow.estimate.activations) < share * static_cast<double>(wide.estimate.activations));
      CHECK(narrow.estimate.parameters == wide.estimate.parameters);
      const double loss = wide.forward();
      CHECK(narrow.forward() == doctest::Approx(loss).epsilon(0.02));
      for (TrainedNetwork* own : {&wide, &narrow}) own->network.backward();
      CAPTURE(relative_error(narrow.gradients(), wide.gradients()));
      CHECK(relative_error(narrow.gradients(), wide.gradients()) < model.gradient_error);
      for (int step = 0; step < 5; ++step)
        for (TrainedNetwork* own : {&wide, &narrow}) {
          own->forward();
          own->descend(0.05f);
        }
      const double trained = wide.forward();
      CHECK(trained < loss);
      CHECK(narrow.forward() == doctest::Approx(trained).epsilon(0.1));
      CHECK(narrow.network.repetition_obstacle().empty());
      CHECK(dragonn::test::to_host(narrow.network.logits()).size() == narrow.labels.size() * TrainedNetwork::kClasses);
    }
  }

  DRAGONN_DEVICE_TEST("a layer that takes float32 only keeps its network in float32") {
    // A layer from outside, which has not heard of bf16.
    const Layer twice{
        .kind = "twice",
        .output_shape = [](Shapes inputs) { return inputs[0]; },
        .plan =
            [](const PlanContext& context) {
              CHECK(context.type == ElementType::kFloat32);
              return layer_plan(
                  [](const ForwardPass& pass) { kernels::add(pass.inputs[0].floats(), pass.inputs[0], pass.output); },
                  [](const BackwardPass& pass) {
                    kernels::add(pass.output_gradients[0], pass.output_gradients[0], pass.input_gradients[0]);
                  });
            }};
    auto graph = std::make_unique<LayerGraph>(Shape{4});
    const NodeId first = graph->add("first", linear({.outputs = 4}), {LayerGraph::input()});
    graph->add("second", twice, {first});
    CHECK(bf16_obstacle(*graph) == "layer second (twice) takes float32 only");
    Network network(std::move(graph), 0.0, device, {device.is_cpu() ? DeviceMath::kFloat32 : DeviceMath::kBf16});
    network.initialize(1);
    const Values inputs{1, 2, 3, 4};
    const std::vector<std::int32_t> labels{2};
    network.forward(View<const float>(inputs), View<const std::int32_t>(labels), 1, Mode::kTrain);
    network.backward();
  }
}

}  // namespace dragonn::layers

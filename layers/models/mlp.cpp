// SPDX-License-Identifier: MIT
/// Multilayer perceptron.
#include <fmt/format.h>

#include "layers/graph.h"
#include "layers/layers.h"
#include "layers/models/model_shapes.h"

namespace dragonn::layers {
namespace {

kernels::Activation activation_named(const std::string& name) {
  if (name == "tanh") return kernels::Activation::kTanh;
  if (name == "sigmoid") return kernels::Activation::kSigmoid;
  if (name == "gelu") return kernels::Activation::kGelu;
  return kernels::Activation::kRelu;
}

std::unique_ptr<LayerGraph> make_mlp(const Settings& settings, const ModelContext& context) {
  require_classes("mlp", context);
  if (context.sample_shape.rank() == 0 || context.sample_shape.size() == 0)
    throw ConfigError(fmt::format("model mlp does not fit samples of shape {}: it needs at least one feature, [1]",
                                  context.sample_shape.to_string()));
  const kernels::Activation nonlinearity = activation_named(settings.text("activation"));
  const bool rectified = nonlinearity == kernels::Activation::kRelu || nonlinearity == kernels::Activation::kGelu;
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  NodeId last = LayerGraph::input();
  if (context.sample_shape.rank() > 1) last = graph->add("flatten", flatten(), {last});
  std::size_t layer = 0;
  for (std::int64_t units : settings.integers("hidden")) {
    const std::string suffix = std::to_string(layer++);
    LinearSettings hidden{.outputs = units};
    hidden.weight_init = rectified ? WeightInit::kHeFanIn : WeightInit::kXavierUniform;
    last = graph->add("hidden" + suffix, linear(hidden), {last});
    last = graph->add("activation" + suffix, activation(nonlinearity), {last});
    if (settings.number("dropout") > 0)
      last = graph->add("dropout" + suffix, dropout(settings.number("dropout")), {last});
  }
  LinearSettings output{.outputs = context.classes};
  output.weight_init = WeightInit::kXavierUniform;
  graph->add("output", linear(output), {last});
  return graph;
}

SettingSpecs settings() {
  return {{.name = "hidden",
           .default_value = std::vector<std::int64_t>{128},
           .help = "units of each hidden layer; an empty list gives a linear model",
           .minimum = 1},
          SettingSpec::text("activation", "relu", "activation function after each hidden layer",
                            {"relu", "tanh", "sigmoid", "gelu"}),
          SettingSpec::number("dropout", 0.0, "dropout rate of the hidden units", 0, 0.99)};
}

const Registration<ModelEntry> registration{
    {{"mlp", "multilayer perceptron with any hidden sizes", "", settings()}, make_mlp}};

}  // namespace
}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// Multilayer perceptron; and one linear layer from features to a large set of labels.
#include <fmt/format.h>

#include "layers/models/blocks.h"

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
    last = graph->add(
        "hidden" + suffix,
        linear({.outputs = units, .weight_init = rectified ? WeightInit::kHeFanIn : WeightInit::kXavierUniform}),
        {last});
    last = graph->add("activation" + suffix, activation(nonlinearity), {last});
    last = add_dropout(*graph, "dropout" + suffix, settings.number("dropout"), last);
  }
  graph->add("output", linear({.outputs = context.classes, .weight_init = WeightInit::kXavierUniform}), {last});
  return graph;
}

std::unique_ptr<LayerGraph> make_xml_linear(const Settings&, const ModelContext& context) {
  require_classes("xml_linear", context);
  if (context.sample_shape.rank() != 1 || context.sample_shape.size() == 0)
    throw ConfigError(fmt::format("model xml_linear does not fit samples of shape {}: it needs [features]",
                                  context.sample_shape.to_string()));
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  graph->add("output", linear({.outputs = context.classes, .bias = false}), {LayerGraph::input()});
  graph->set_loss(multi_label_loss());
  return graph;
}

const Registration<ModelEntry> mlp{
    {{"mlp",
      "multilayer perceptron with any hidden sizes",
      "",
      {{.name = "hidden",
        .default_value = std::vector<std::int64_t>{128},
        .help = "units of each hidden layer; an empty list gives a linear model",
        .minimum = 1},
       SettingSpec::text("activation", "relu", "activation function after each hidden layer",
                         {"relu", "tanh", "sigmoid", "gelu"}),
       SettingSpec::number("dropout", 0.0, "dropout rate of the hidden units", 0, 0.99)}},
     make_mlp}};

const Registration<ModelEntry> xml_linear{
    {{"xml_linear", "one linear layer without bias, for any number of labels per sample",
      "DRAGONN (Wang et al., ICML 2022), section 5: 4096 to 30938"},
     make_xml_linear,
     InputKind::kFeatures}};

}  // namespace
}  // namespace dragonn::layers

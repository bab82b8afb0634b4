// SPDX-License-Identifier: MIT
/// VGG: the original for ImageNet; for small images its convolutions with batch normalization, and one linear layer.
#include <algorithm>
#include <array>

#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

constexpr int kStages = 5;

/// The convolutions per stage. Source: Simonyan and Zisserman, arXiv:1409.1556, table 1, columns A, B, D, E.
struct Configuration {
  const char* name;
  std::array<int, kStages> convolutions;
};

/// Adds a 3x3 convolution and ReLU, with batch norm between them if asked.
NodeId add_convolution(LayerGraph& graph, NodeId input, const std::string& stage, int number, std::int64_t channels,
                       bool normalized) {
  const std::string suffix = std::to_string(number);
  ConvolutionSettings settings = square_convolution(channels, 3, 1, 1);
  settings.bias = true;  // without effect in front of a batch norm, but the published parameter counts have it
  const NodeId last = graph.add(stage + ".conv" + suffix, convolution(settings), {input});
  if (normalized) return graph.add(stage + ".bn" + suffix, batch_norm({.relu = true}), {last});
  return graph.add(stage + ".relu" + suffix, activation(kernels::Activation::kRelu), {last});
}

std::unique_ptr<LayerGraph> make_vgg(const Configuration& configuration, const Settings& settings,
                                     const ModelContext& context) {
  constexpr std::int64_t kUnits = 4096;
  const bool original = settings.text("form") == "imagenet";
  const double width = settings.number("width");
  require_image(configuration.name, context, kStages);
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  NodeId last = LayerGraph::input();
  std::int64_t channels = 64;
  for (int stage = 0; stage < kStages; ++stage) {
    const std::string name = "stage" + std::to_string(stage + 1);
    for (int i = 0; i < configuration.convolutions[static_cast<std::size_t>(stage)]; ++i)
      last = add_convolution(*graph, last, name, i + 1, scaled_channels(channels, width), !original);
    // Odd sides round up, so that 28 x 28 images work.
    last = graph->add(name + ".pool", max_pooling({2, 2, 0, true}), {last});
    channels = std::min<std::int64_t>(512, channels * 2);
  }
  if (!original) last = graph->add("pool", global_average_pooling(), {last});
  last = graph->add("flatten", flatten(), {last});
  if (original) {
    for (const std::string name : {"linear1", "linear2"}) {
      last = graph->add(name, linear({.outputs = scaled_channels(kUnits, width), .weight_init = WeightInit::kHeFanIn}),
                        {last});
      last = graph->add(name + ".relu", activation(kernels::Activation::kRelu), {last});
      last = add_dropout(*graph, name + ".dropout", settings.number("dropout"), last);
    }
  }
  graph->add("output", linear({.outputs = context.classes}), {last});
  return graph;
}

Registration<ModelEntry> registered(const Configuration& configuration) {
  return Registration<ModelEntry>(
      {{configuration.name,
        "VGG for images of at least 17 pixels, with batch norm, or as published",
        "arXiv:1409.1556, table 1",
        {SettingSpec::text("form", "cifar",
                           "cifar: batch norm and one linear layer; imagenet: the original, three linear layers",
                           {"cifar", "imagenet"}),
         SettingSpec::number("dropout", 0.0, "dropout rate between the linear layers of the form imagenet", 0, 0.99),
         width_setting()}},
       [configuration](const Settings& settings, const ModelContext& context) {
         return make_vgg(configuration, settings, context);
       }});
}

const Registration<ModelEntry> registrations[] = {
    registered({"vgg11", {1, 1, 2, 2, 2}}), registered({"vgg13", {2, 2, 2, 2, 2}}),
    registered({"vgg16", {2, 2, 3, 3, 3}}), registered({"vgg19", {2, 2, 4, 4, 4}})};

}  // namespace
}  // namespace dragonn::layers

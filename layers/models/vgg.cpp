// SPDX-License-Identifier: MIT
/// VGG for small images: the convolutions of the original with batch normalization, and one linear layer.
#include <algorithm>

#include "layers/graph.h"
#include "layers/layers.h"
#include "layers/models/model_shapes.h"

namespace dragonn::layers {
namespace {

constexpr int kStages = 5;

/// The convolutions per stage. Source: Simonyan and Zisserman, arXiv:1409.1556, table 1, columns A, B, D, E.
struct Configuration {
  const char* name;
  int convolutions[kStages];
};
constexpr Configuration kConfigurations[] = {
    {"vgg11", {1, 1, 2, 2, 2}},
    {"vgg13", {2, 2, 2, 2, 2}},
    {"vgg16", {2, 2, 3, 3, 3}},
    {"vgg19", {2, 2, 4, 4, 4}},
};

std::unique_ptr<LayerGraph> make_vgg(const Configuration& configuration, const ModelContext& context) {
  require_image(configuration.name, context, kStages);
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  NodeId last = LayerGraph::input();
  std::int64_t channels = 64;
  for (int stage = 0; stage < kStages; ++stage) {
    for (int i = 0; i < configuration.convolutions[stage]; ++i) {
      const std::string name = "stage" + std::to_string(stage + 1);
      const std::string suffix = std::to_string(i + 1);
      ConvolutionSettings settings = square_convolution(channels, 3, 1, 1);
      settings.bias = true;  // without effect in front of a batch norm, but the published parameter counts have it
      last = graph->add(name + ".conv" + suffix, convolution(settings), {last});
      last = graph->add(name + ".bn" + suffix, batch_norm({.relu = true}), {last});
    }
    // Odd sides round up, so that 28 x 28 images work.
    last = graph->add("stage" + std::to_string(stage + 1) + ".pool", max_pooling({2, 2, 0, true}), {last});
    channels = std::min<std::int64_t>(512, channels * 2);
  }
  last = graph->add("pool", global_average_pooling(), {last});
  last = graph->add("flatten", flatten(), {last});
  graph->add("output", linear({.outputs = context.classes}), {last});
  return graph;
}

Registration<ModelEntry> registered(const Configuration& configuration) {
  return Registration<ModelEntry>(
      {{configuration.name, "VGG with batch norm and one linear layer, for images of at least 17 pixels",
        "arXiv:1409.1556, table 1"},
       [configuration](const Settings&, const ModelContext& context) { return make_vgg(configuration, context); }});
}

const Registration<ModelEntry> registrations[] = {registered(kConfigurations[0]), registered(kConfigurations[1]),
                                                  registered(kConfigurations[2]), registered(kConfigurations[3])};

}  // namespace
}  // namespace dragonn::layers

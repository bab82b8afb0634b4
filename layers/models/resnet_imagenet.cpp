// SPDX-License-Identifier: MIT
/// Residual networks for ImageNet: four stages with projection shortcuts. With another stem they take small images.
#include "layers/models/convolution_blocks.h"
#include "layers/models/model_shapes.h"

namespace dragonn::layers {
namespace {

constexpr int kStages = 4;

/// The blocks of a network. Source: arXiv:1512.03385, table 1.
struct Configuration {
  const char* name;
  const char* summary;
  int blocks[kStages];
  std::int64_t expansion;  ///< channels of a block's output over those inside; each stage has twice those before
  NodeId (*add_block)(LayerGraph&, NodeId, const ResidualBlock&);
};
constexpr Configuration kConfigurations[] = {
    {"resnet18", "residual network of four stages of two basic blocks", {2, 2, 2, 2}, 1, add_residual_block},
    {"resnet50", "residual network of 16 bottleneck blocks in four stages", {3, 4, 6, 3}, 4, add_bottleneck_block},
    {"resnet101", "residual network of 33 bottleneck blocks in four stages", {3, 4, 23, 3}, 4, add_bottleneck_block},
    {"resnet152", "residual network of 50 bottleneck blocks in four stages", {3, 8, 36, 3}, 4, add_bottleneck_block},
};

std::unique_ptr<LayerGraph> make_resnet(const Configuration& configuration, const Settings& settings,
                                        const ModelContext& context) {
  constexpr std::int64_t kStemChannels = 64;
  const double width = settings.number("width");
  const std::int64_t stem = scaled_channels(kStemChannels, width);
  const bool imagenet = settings.text("stem") == "imagenet";
  require_image(configuration.name, context, imagenet ? kStages + 1 : kStages - 1);
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  NodeId last = add_stem(*graph, imagenet ? square_convolution(stem, 7, 2, 3) : square_convolution(stem, 3, 1, 1));
  if (imagenet) last = graph->add("stem.pool", max_pooling({3, 2, 1}), {last});
  std::int64_t inner = kStemChannels;
  for (int stage = 1; stage <= kStages; ++stage, inner *= 2)
    for (int block = 0; block < configuration.blocks[stage - 1]; ++block)
      last = configuration.add_block(*graph, last,
                                     {"stage" + std::to_string(stage) + ".block" + std::to_string(block),
                                      scaled_channels(inner, width) * configuration.expansion,
                                      stage > 1 && block == 0 ? 2 : 1, Shortcut::kProjection});
  add_classifier(*graph, last, context.classes, WeightInit::kFanInUniform);
  return graph;
}

Registration<ModelEntry> registered(const Configuration& configuration) {
  return Registration<ModelEntry>(
      {{configuration.name,
        configuration.summary,
        "arXiv:1512.03385, table 1",
        {SettingSpec::text("stem", "cifar",
                           "first layers; cifar: 3x3 convolution, for small images; imagenet: 7x7/2 convolution and "
                           "pooling",
                           {"cifar", "imagenet"}),
         width_setting()}},
       [configuration](const Settings& settings, const ModelContext& context) {
         return make_resnet(configuration, settings, context);
       }});
}

const Registration<ModelEntry> registrations[] = {registered(kConfigurations[0]), registered(kConfigurations[1]),
                                                  registered(kConfigurations[2]), registered(kConfigurations[3])};

}  // namespace
}  // namespace dragonn::layers

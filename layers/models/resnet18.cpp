// SPDX-License-Identifier: MIT
/// ResNet-18: four stages of two basic blocks, with projection shortcuts.
#include "layers/models/model_shapes.h"
#include "layers/models/residual_block.h"

namespace dragonn::layers {
namespace {

constexpr int kStages = 4;

std::unique_ptr<LayerGraph> make_resnet18(const Settings& settings, const ModelContext& context) {
  const bool imagenet = settings.text("stem") == "imagenet";
  require_image("resnet18", context, imagenet ? kStages + 1 : kStages - 1);
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  std::int64_t channels = 64;
  NodeId last =
      add_stem(*graph, imagenet ? square_convolution(channels, 7, 2, 3) : square_convolution(channels, 3, 1, 1));
  if (imagenet) last = graph->add("stem.pool", max_pooling({3, 2, 1}), {last});
  for (int stage = 1; stage <= kStages; ++stage, channels *= 2)
    for (int block = 0; block < 2; ++block)
      last = add_residual_block(*graph, last,
                                {"stage" + std::to_string(stage) + ".block" + std::to_string(block), channels,
                                 stage > 1 && block == 0 ? 2 : 1, Shortcut::kProjection});
  add_classifier(*graph, last, context.classes, WeightInit::kFanInUniform);
  return graph;
}

SettingSpecs settings() {
  return {{.name = "stem",
           .default_value = std::string("cifar"),
           .help = "cifar (3x3 convolution, for small images) or imagenet (7x7/2 convolution and pooling)",
           .choices = {"cifar", "imagenet"}}};
}

const Registration<ModelEntry> registration{
    {{"resnet18", "residual network of four stages of two basic blocks", "arXiv:1512.03385, table 1", settings()},
     make_resnet18}};

}  // namespace
}  // namespace dragonn::layers

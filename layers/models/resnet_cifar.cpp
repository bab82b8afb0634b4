// SPDX-License-Identifier: MIT
/// Residual networks for CIFAR-10: 6n + 2 layers in three stages of 16, 32 and 64 channels.
#include "layers/models/convolution_blocks.h"
#include "layers/models/model_shapes.h"

namespace dragonn::layers {
namespace {

constexpr int kStages = 3;

std::unique_ptr<LayerGraph> make_resnet(const std::string& name, int blocks, const Settings& settings,
                                        const ModelContext& context) {
  require_image(name, context, kStages - 1);
  const Shortcut shortcut = settings.text("shortcut") == "pad" ? Shortcut::kPad : Shortcut::kProjection;
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  std::int64_t channels = 16;
  ConvolutionSettings stem = square_convolution(channels, 3, 1, 1);
  stem.weight_init = WeightInit::kHeFanIn;
  NodeId last = add_stem(*graph, stem);
  for (int stage = 1; stage <= kStages; ++stage, channels *= 2)
    for (int block = 0; block < blocks; ++block)
      last = add_residual_block(*graph, last,
                                {"stage" + std::to_string(stage) + ".block" + std::to_string(block), channels,
                                 stage > 1 && block == 0 ? 2 : 1, shortcut, WeightInit::kHeFanIn});
  add_classifier(*graph, last, context.classes, WeightInit::kHeFanIn);
  return graph;
}

Registration<ModelEntry> registered(int depth) {
  const int blocks = (depth - 2) / (2 * kStages);
  const std::string name = "resnet" + std::to_string(depth);
  return Registration<ModelEntry>(
      {{name,
        "residual network for small images, three stages of " + std::to_string(blocks) + " basic blocks",
        "arXiv:1512.03385, section 4.2",
        {SettingSpec::text("shortcut", "pad",
                           "shortcut when the shape changes; pad: option A, no parameters; projection: option B",
                           {"pad", "projection"})}},
       [name, blocks](const Settings& settings, const ModelContext& context) {
         return make_resnet(name, blocks, settings, context);
       }});
}

const Registration<ModelEntry> registrations[] = {registered(20), registered(32), registered(44), registered(56),
                                                  registered(110)};

}  // namespace
}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// Residual networks: for CIFAR-10 6n + 2 layers in three stages of 16, 32 and 64 channels; for ImageNet four stages
/// with projection shortcuts, which with another stem take small images.
#include <array>

#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

/// The shortcut from a block's input to its output if the shapes differ.
enum class Shortcut {
  kPad,         ///< option A: every other pixel, zero channels; no parameters
  kProjection,  ///< option B: 1x1 convolution and batch norm
};

struct Block {
  std::string name;
  std::int64_t channels = 1;  ///< of the output
  std::int64_t stride = 1;
  Shortcut shortcut = Shortcut::kPad;
  WeightInit weight_init = WeightInit::kHeFanOut;
};

NodeId add_shortcut(LayerGraph& graph, NodeId input, const Block& block) {
  const Shape& shape = graph.nodes()[input].output;
  if (block.stride == 1 && shape[3] == block.channels) return input;
  if (block.shortcut == Shortcut::kPad)
    return graph.add(block.name + ".shortcut", padded_shortcut(block.channels, block.stride), {input});
  ConvolutionSettings projection = square_convolution(block.channels, 1, block.stride, 0);
  projection.weight_init = block.weight_init;
  const NodeId projected = graph.add(block.name + ".shortcut.conv", convolution(projection), {input});
  return graph.add(block.name + ".shortcut.bn", batch_norm({}), {projected});
}

/// Adds convolutions, each with batch norm and ReLU. The sum with the shortcut is part of the last batch norm.
NodeId add_block(LayerGraph& graph, NodeId input, const Block& block, const std::vector<ConvolutionSettings>& filters) {
  NodeId last = input;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    ConvolutionSettings filter = filters[i];
    filter.weight_init = block.weight_init;
    last = graph.add(block.name + ".conv" + number, convolution(filter), {last});
    std::vector<NodeId> inputs{last};
    const bool sums = i + 1 == filters.size();
    if (sums) inputs.push_back(add_shortcut(graph, input, block));
    last = graph.add(block.name + ".bn" + number, batch_norm({.relu = true, .residual = sums}), inputs);
  }
  return last;
}

/// Adds two 3x3 convolutions. Source: arXiv:1512.03385, figure 2 and section 3.3.
NodeId add_basic_block(LayerGraph& graph, NodeId input, const Block& block) {
  return add_block(
      graph, input, block,
      {square_convolution(block.channels, 3, block.stride, 1), square_convolution(block.channels, 3, 1, 1)});
}

/// Adds 1x1 to a quarter of the channels, 3x3 with the stride, and 1x1 to all of them. Source: arXiv:1512.03385,
/// figure 5. The stride is that of the 3x3 convolution as in PyTorch's model, not of the first one.
NodeId add_bottleneck_block(LayerGraph& graph, NodeId input, const Block& block) {
  const std::int64_t inner = block.channels / 4;
  return add_block(graph, input, block,
                   {square_convolution(inner, 1, 1, 0), square_convolution(inner, 3, block.stride, 1),
                    square_convolution(block.channels, 1, 1, 0)});
}

/// Adds a convolution without bias, then batch norm and ReLU.
NodeId add_stem(LayerGraph& graph, const ConvolutionSettings& settings) {
  const NodeId last = graph.add("stem.conv", convolution(settings), {LayerGraph::input()});
  return graph.add("stem.bn", batch_norm({.relu = true}), {last});
}

std::string block_name(int stage, int block) {
  return "stage" + std::to_string(stage) + ".block" + std::to_string(block);
}

Registration<ModelEntry> registered_small(int depth) {
  static constexpr int kStages = 3;
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
         require_image(name, context, kStages - 1);
         const Shortcut shortcut = settings.text("shortcut") == "pad" ? Shortcut::kPad : Shortcut::kProjection;
         auto graph = std::make_unique<LayerGraph>(context.sample_shape);
         std::int64_t channels = 16;
         ConvolutionSettings stem = square_convolution(channels, 3, 1, 1);
         stem.weight_init = WeightInit::kHeFanIn;
         NodeId last = add_stem(*graph, stem);
         for (int stage = 1; stage <= kStages; ++stage, channels *= 2)
           for (int block = 0; block < blocks; ++block)
             last = add_basic_block(
                 *graph, last,
                 {block_name(stage, block), channels, stage > 1 && block == 0 ? 2 : 1, shortcut, WeightInit::kHeFanIn});
         add_classifier(*graph, last, context.classes, WeightInit::kHeFanIn);
         return graph;
       }});
}

/// A network of four stages. Source: arXiv:1512.03385, table 1.
struct Configuration {
  const char* name;
  const char* summary;
  std::array<int, 4> blocks;
  std::int64_t expansion;  ///< channels of a block's output over those inside; each stage has twice those before
};

std::unique_ptr<LayerGraph> make_resnet(const Configuration& configuration, const Settings& settings,
                                        const ModelContext& context) {
  constexpr int kStages = 4;
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
    for (int block = 0; block < configuration.blocks[static_cast<std::size_t>(stage - 1)]; ++block)
      last = (configuration.expansion == 1 ? add_basic_block : add_bottleneck_block)(
          *graph, last,
          {block_name(stage, block), scaled_channels(inner, width) * configuration.expansion,
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

const Registration<ModelEntry> registrations[] = {
    registered_small(20),
    registered_small(32),
    registered_small(44),
    registered_small(56),
    registered_small(110),
    registered({"resnet18", "residual network of four stages of two basic blocks", {2, 2, 2, 2}, 1}),
    registered({"resnet50", "residual network of 16 bottleneck blocks in four stages", {3, 4, 6, 3}, 4}),
    registered({"resnet101", "residual network of 33 bottleneck blocks in four stages", {3, 4, 23, 3}, 4}),
    registered({"resnet152", "residual network of 50 bottleneck blocks in four stages", {3, 8, 36, 3}, 4})};

}  // namespace
}  // namespace dragonn::layers

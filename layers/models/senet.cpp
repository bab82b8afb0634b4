// SPDX-License-Identifier: MIT
/// SENet-18 for small images: residual blocks whose channels are scaled by squeeze-and-excitation.
#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

constexpr int kStages = 4, kBlocks = 2;

/// Returns the channels of a stage, from 1 on. The code that the residual form is from has 516 in place of 512.
std::int64_t channels_of(int stage, bool preactivation) {
  return stage == kStages && !preactivation ? 516 : std::int64_t{32} << stage;
}

struct Block {
  std::string name;
  std::int64_t channels = 1, stride = 1;
};

bool changes_shape(const LayerGraph& graph, NodeId input, const Block& block) {
  return block.stride != 1 || graph.nodes()[input].output[3] != block.channels;
}

/// Adds batch norm and ReLU in front of each convolution; no batch norm behind them.
NodeId add_preactivation_block(LayerGraph& graph, NodeId input, const Block& block) {
  const auto add = [&](const std::string& name, Layer layer, NodeId from) {
    return graph.add(block.name + name, std::move(layer), {from});
  };
  const NodeId activated = add(".bn1", batch_norm({.relu = true}), input);
  NodeId last = add(".conv1", convolution(square_convolution(block.channels, 3, block.stride, 1)), activated);
  last = add(".bn2", batch_norm({.relu = true}), last);
  last = add(".conv2", convolution(square_convolution(block.channels, 3, 1, 1)), last);
  last = add_excitation(graph, last, block.name + ".excitation");
  const NodeId shortcut =
      changes_shape(graph, input, block)
          ? add(".shortcut", convolution(square_convolution(block.channels, 1, block.stride, 0)), activated)
          : input;
  return graph.add(block.name + ".sum", residual_add(false), {last, shortcut});
}

/// Adds convolutions with biases, each with batch norm and ReLU, and another ReLU behind the sum.
NodeId add_residual_form(LayerGraph& graph, NodeId input, const Block& block) {
  const FilterBuilder filters{.graph = graph, .bias = true};
  NodeId last = filters.add_branch(block.name, input, {{block.channels, 3, 3, block.stride}, {block.channels, 3, 3}});
  last = add_excitation(graph, last, block.name + ".excitation");
  NodeId shortcut = input;
  if (changes_shape(graph, input, block)) {
    ConvolutionSettings projection = square_convolution(block.channels, 1, block.stride, 0);
    projection.bias = true;
    shortcut = graph.add(block.name + ".shortcut.conv", convolution(projection), {input});
    shortcut = graph.add(block.name + ".shortcut.bn", batch_norm({}), {shortcut});
  }
  return graph.add(block.name + ".sum", residual_add(true), {last, shortcut});
}

std::unique_ptr<LayerGraph> make_senet(const Settings& settings, const ModelContext& context) {
  require_image("senet18", context, kStages - 1);
  const bool preactivation = settings.text("form") == "preactivation";
  const double width = settings.number("width");
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  const FilterBuilder filters{.graph = *graph, .width = width, .bias = !preactivation};
  NodeId last = filters.add("stem", LayerGraph::input(), {channels_of(1, preactivation), 3, 3});
  for (int stage = 1; stage <= kStages; ++stage)
    for (int block = 0; block < kBlocks; ++block)
      last = (preactivation ? add_preactivation_block : add_residual_form)(
          *graph, last,
          {"stage" + std::to_string(stage) + ".block" + std::to_string(block),
           scaled_channels(channels_of(stage, preactivation), width), stage > 1 && block == 0 ? 2 : 1});
  add_classifier(*graph, last, context.classes, WeightInit::kFanInUniform);
  return graph;
}

const Registration<ModelEntry> registration{
    {{"senet18",
      "residual network of eight blocks with squeeze-and-excitation, for small images",
      "arXiv:1709.01507, section 3",
      {SettingSpec::text("form", "preactivation",
                         "preactivation: as in github.com/kuangliu/pytorch-cifar; residual: as in "
                         "github.com/uw-mad-dash/Accordion",
                         {"preactivation", "residual"}),
       width_setting()}},
     make_senet}};

}  // namespace
}  // namespace dragonn::layers

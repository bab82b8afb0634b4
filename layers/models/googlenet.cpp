// SPDX-License-Identifier: MIT
/// GoogLeNet for small images, with batch norm; two 3x3 convolutions in place of each 5x5.
#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

/// The channels of an inception module's branches. Source: arXiv:1409.4842, table 1.
struct Module {
  const char* name;
  std::int64_t branch1, reduction3, branch3, reduction5, branch5, pooled;
  bool pools_before;
};
constexpr Module kModules[] = {
    {"a3", 64, 96, 128, 16, 32, 32, false},     {"b3", 128, 128, 192, 32, 96, 64, false},
    {"a4", 192, 96, 208, 16, 48, 64, true},     {"b4", 160, 112, 224, 24, 64, 64, false},
    {"c4", 128, 128, 256, 24, 64, 64, false},   {"d4", 112, 144, 288, 32, 64, 64, false},
    {"e4", 256, 160, 320, 32, 128, 128, false}, {"a5", 256, 160, 320, 32, 128, 128, true},
    {"b5", 384, 192, 384, 48, 128, 128, false},
};

NodeId add_module(const FilterBuilder& filters, NodeId input, const Module& module) {
  const std::string name = module.name;
  const NodeId single = filters.add_branch(name + ".branch1", input, {{module.branch1}});
  const NodeId three = filters.add_branch(name + ".branch2", input, {{module.reduction3}, {module.branch3, 3, 3}});
  const NodeId five = filters.add_branch(name + ".branch3", input,
                                         {{module.reduction5}, {module.branch5, 3, 3}, {module.branch5, 3, 3}});
  const NodeId pool = filters.graph.add(name + ".branch4.pool", max_pooling({3, 1, 1}), {input});
  const NodeId pooled = filters.add_branch(name + ".branch4", pool, {{module.pooled}});
  return filters.graph.add(name, concatenate(), {single, three, five, pooled});
}

std::unique_ptr<LayerGraph> make_googlenet(const Settings& settings, const ModelContext& context) {
  require_image("googlenet", context, 2);
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  const FilterBuilder filters{.graph = *graph, .width = settings.number("width"), .bias = true};
  NodeId last = filters.add("stem", LayerGraph::input(), {192, 3, 3});
  for (const Module& module : kModules) {
    if (module.pools_before) last = graph->add(std::string(module.name) + ".pool", max_pooling({3, 2, 1}), {last});
    last = add_module(filters, last, module);
  }
  add_classifier(*graph, last, context.classes, WeightInit::kFanInUniform, settings.number("dropout"));
  return graph;
}

const Registration<ModelEntry> registration{
    {{"googlenet",
      "nine inception modules for small images, as in github.com/kuangliu/pytorch-cifar",
      "arXiv:1409.4842, table 1",
      {SettingSpec::number("dropout", 0.0, "dropout rate of the features; published: 0.4", 0, 0.99), width_setting()}},
     make_googlenet}};

}  // namespace
}  // namespace dragonn::layers

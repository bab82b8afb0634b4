// SPDX-License-Identifier: MIT
/// Inception-v4, and a form for small images whose stem keeps their size.
#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

/// The smallest sides: one pixel is left behind the last reduction.
constexpr std::int64_t kSmallestImage = 75, kSmallestSmallImage = 5;

/// Adds the modules of one network. Source of all channel counts: Szegedy et al., arXiv:1602.07261, figures 3 to 9.
class InceptionV4 {
 public:
  InceptionV4(LayerGraph& graph, double width, bool small)
      : filters_{.graph = graph, .width = width, .epsilon = small ? 1e-5f : 1e-3f}, small_(small) {}

  NodeId add_stem() const {
    const std::int64_t stride = small_ ? 1 : 2;  // of those layers that shrink large images
    NodeId last = branch("stem1", LayerGraph::input(), {{32, 3, 3, stride, false}, {32, 3, 3, 1, small_}, {64, 3, 3}});
    const NodeId pooled2 = add_max_pooling("stem2.pool", last, stride, small_);
    last = join("stem2", {pooled2, branch("stem2.branch", last, {{96, 3, 3, stride, small_}})});
    const NodeId short3 = branch("stem3.branch1", last, {{64}, {96, 3, 3, 1, small_}});
    const NodeId long3 = branch("stem3.branch2", last, {{64}, {64, 1, 7}, {64, 7, 1}, {96, 3, 3, 1, small_}});
    last = join("stem3", {short3, long3});
    const NodeId convolved4 = branch("stem4.branch", last, {{192, 3, 3, stride, small_}});
    return join("stem4", {convolved4, add_max_pooling("stem4.pool", last, stride, small_)});
  }

  NodeId add_module_a(const std::string& name, NodeId input) const {
    return join(name, {branch(name + ".branch1", input, {{96}}), branch(name + ".branch2", input, {{64}, {96, 3, 3}}),
                       branch(name + ".branch3", input, {{64}, {96, 3, 3}, {96, 3, 3}}),
                       add_pooled(name + ".branch4", input, 96)});
  }

  NodeId add_reduction_a(NodeId input) const {
    return join("reduction_a", {branch("reduction_a.branch1", input, {{384, 3, 3, 2, false}}),
                                branch("reduction_a.branch2", input, {{192}, {224, 3, 3}, {256, 3, 3, 2, false}}),
                                add_max_pooling("reduction_a.pool", input, 2, false)});
  }

  NodeId add_module_b(const std::string& name, NodeId input) const {
    return join(name, {branch(name + ".branch1", input, {{384}}),
                       branch(name + ".branch2", input, {{192}, {224, 1, 7}, {256, 7, 1}}),
                       branch(name + ".branch3", input, {{192}, {192, 7, 1}, {224, 1, 7}, {224, 7, 1}, {256, 1, 7}}),
                       add_pooled(name + ".branch4", input, 128)});
  }

  NodeId add_reduction_b(NodeId input) const {
    return join("reduction_b",
                {branch("reduction_b.branch1", input, {{192}, {192, 3, 3, 2, small_}}),
                 branch("reduction_b.branch2", input, {{256}, {256, 1, 7}, {320, 7, 1}, {320, 3, 3, 2, small_}}),
                 add_max_pooling("reduction_b.pool", input, 2, small_)});
  }

  NodeId add_module_c(const std::string& name, NodeId input) const {
    const auto fork = [&](const std::string& of, NodeId from) {
      return std::vector<NodeId>{branch(of + ".row", from, {{256, 1, 3}}), branch(of + ".column", from, {{256, 3, 1}})};
    };
    const NodeId single = branch(name + ".branch1", input, {{256}});
    const std::vector<NodeId> near = fork(name + ".branch2", branch(name + ".branch2", input, {{384}}));
    const std::vector<NodeId> far =
        fork(name + ".branch3", branch(name + ".branch3", input, {{384}, {448, 3, 1}, {512, 1, 3}}));
    return join(name, {single, near[0], near[1], far[0], far[1], add_pooled(name + ".branch4", input, 256)});
  }

 private:
  NodeId branch(const std::string& name, NodeId input, const std::vector<Filter>& filters) const {
    return filters_.add_branch(name, input, filters);
  }
  NodeId join(const std::string& name, std::vector<NodeId> inputs) const {
    return filters_.graph.add(name, concatenate(), std::move(inputs));
  }
  NodeId add_max_pooling(const std::string& name, NodeId input, std::int64_t stride, bool padded) const {
    return filters_.graph.add(name, max_pooling({3, stride, padded ? 1 : 0}), {input});
  }
  /// Adds a branch of average pooling and one convolution.
  NodeId add_pooled(const std::string& name, NodeId input, std::int64_t channels) const {
    const NodeId pooled = filters_.graph.add(name + ".pool", average_pooling({3, 1, 1}), {input});
    return filters_.add_branch(name, pooled, {{channels}});
  }

  FilterBuilder filters_;
  bool small_;
};

std::unique_ptr<LayerGraph> make_inception_v4(const Settings& settings, const ModelContext& context) {
  const bool small = settings.text("stem") == "cifar";
  require_image_side("inception_v4", context, small ? kSmallestSmallImage : kSmallestImage);
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  const InceptionV4 net(*graph, settings.number("width"), small);
  NodeId last = net.add_stem();
  for (const char* name : {"a1", "a2", "a3", "a4"}) last = net.add_module_a(name, last);
  last = net.add_reduction_a(last);
  for (const char* name : {"b1", "b2", "b3", "b4", "b5", "b6", "b7"}) last = net.add_module_b(name, last);
  last = net.add_reduction_b(last);
  for (const char* name : {"c1", "c2", "c3"}) last = net.add_module_c(name, last);
  add_classifier(*graph, last, context.classes, WeightInit::kFanInUniform, settings.number("dropout"));
  return graph;
}

const Registration<ModelEntry> registration{
    {{"inception_v4",
      "four, seven and three modules of three kinds of inception",
      "arXiv:1602.07261, figure 9",
      {SettingSpec::text("stem", "cifar",
                         "cifar: strides 1 in the stem, as in github.com/weiaicunzai/pytorch-cifar100; imagenet: as "
                         "published",
                         {"cifar", "imagenet"}),
       SettingSpec::number("dropout", 0.0, "dropout rate of the features; published: 0.2", 0, 0.99), width_setting()}},
     make_inception_v4}};

}  // namespace
}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
#include "layers/models/blocks.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace dragonn::layers {

void require_classes(std::string_view model, const ModelContext& context) {
  if (context.classes < 2)
    throw ConfigError(fmt::format("model {} for {} classes: it needs at least 2", model, context.classes));
}

void require_image(std::string_view model, const ModelContext& context, int halvings) {
  // Halving rounds up: s is down to one pixel after h halvings unless s > 2^h.
  require_image_side(model, context, halvings == 0 ? 1 : (std::int64_t{1} << (halvings - 1)) + 1);
}

void require_image_side(std::string_view model, const ModelContext& context, std::int64_t smallest) {
  require_classes(model, context);
  const Shape& sample = context.sample_shape;
  if (sample.rank() != 3 || sample.size() == 0 || std::min(sample[0], sample[1]) < smallest)
    throw ConfigError(
        fmt::format("model {} does not fit samples of shape {}: it needs images of shape [height, width, "
                    "channels], at least [{}, {}, 1]",
                    model, sample.to_string(), smallest, smallest));
}

void require_sequence(std::string_view model, const ModelContext& context, std::size_t rank) {
  require_classes(model, context);
  const Shape& sample = context.sample_shape;
  if (sample.rank() != rank || sample.size() == 0)
    throw ConfigError(fmt::format("model {} does not fit samples of shape {}: it needs sequences of shape {}", model,
                                  sample.to_string(), rank == 1 ? "[steps]" : "[steps, features]"));
}

void require_steps(std::string_view model, const ModelContext& context, std::string_view key, std::int64_t max) {
  if (context.sample_shape[0] > max)
    throw ConfigError(
        fmt::format("model {}: samples of {} steps are longer than {} = {}", model, context.sample_shape[0], key, max));
}

void require_heads(std::string_view model, std::int64_t width, std::int64_t heads) {
  if (width % heads != 0)
    throw ConfigError(fmt::format("model {}: hidden = {} must be a multiple of heads = {}", model, width, heads));
}

SettingSpec width_setting() {
  return SettingSpec::number("width", 1.0, "factor of all channel counts; the published model has 1", 0, 16)
      .above_minimum();
}

std::int64_t scaled_channels(std::int64_t channels, double width) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(channels) * width));
}

NodeId add_dropout(LayerGraph& graph, const std::string& name, double rate, NodeId input) {
  return rate > 0 ? graph.add(name, dropout(rate), {input}) : input;
}

NodeId FilterBuilder::add(const std::string& name, NodeId input, const Filter& filter) const {
  const auto window = [&](std::int64_t kernel) {
    return kernels::Window{kernel, filter.stride, filter.padded ? kernel / 2 : 0};
  };
  const NodeId last = graph.add(name + ".conv",
                                convolution({.outputs = scaled_channels(filter.channels, width),
                                             .vertical = window(filter.height),
                                             .horizontal = window(filter.width),
                                             .bias = bias}),
                                {input});
  return graph.add(name + ".bn", batch_norm({.relu = true, .epsilon = epsilon}), {last});
}

NodeId FilterBuilder::add_branch(const std::string& name, NodeId input, const std::vector<Filter>& filters) const {
  int number = 0;
  for (const Filter& filter : filters) input = add(name + "." + std::to_string(++number), input, filter);
  return input;
}

NodeId add_excitation(LayerGraph& graph, NodeId input, const std::string& name) {
  constexpr std::int64_t kReduction = 16;
  const std::int64_t channels = graph.nodes()[input].output[3];
  const auto mix = [](std::int64_t outputs) {
    return linear({.outputs = outputs, .bias_init = BiasInit::kFanInUniform});
  };
  NodeId last = graph.add(name + ".pool", global_average_pooling(), {input});
  last = graph.add(name + ".flatten", flatten(), {last});
  last = graph.add(name + ".linear1", mix(std::max<std::int64_t>(1, channels / kReduction)), {last});
  last = graph.add(name + ".relu", activation(kernels::Activation::kRelu), {last});
  last = graph.add(name + ".linear2", mix(channels), {last});
  last = graph.add(name + ".sigmoid", activation(kernels::Activation::kSigmoid), {last});
  return graph.add(name + ".scale", scale_channels(), {input, last});
}

void add_classifier(LayerGraph& graph, NodeId input, std::int64_t classes, WeightInit weight_init,
                    double dropout_rate) {
  NodeId last = graph.add("pool", global_average_pooling(), {input});
  last = graph.add("flatten", flatten(), {last});
  last = add_dropout(graph, "dropout", dropout_rate, last);
  graph.add("output", linear({.outputs = classes, .weight_init = weight_init, .bias_init = BiasInit::kFanInUniform}),
            {last});
}

Layer transformer_linear(std::int64_t outputs, const WeightDistribution& weight_init) {
  return linear({.outputs = outputs, .weight_init = weight_init});
}

NodeId add_feed_forward(LayerGraph& graph, NodeId input, const FeedForward& part) {
  const std::int64_t width = graph.nodes()[input].output.extents().back();
  NodeId last = graph.add(part.name + ".linear1", transformer_linear(part.units, part.init.inner), {input});
  last = graph.add(part.name + ".gelu", activation(part.activation), {last});
  return graph.add(part.name + ".linear2", transformer_linear(width, part.init.last), {last});
}

NodeId add_transformer_block(LayerGraph& graph, NodeId input, const TransformerBlock& block) {
  const NodeId first = graph.nodes().size();
  // Adds one of the two parts, with its layer norm and residual connection.
  const auto add_part = [&](const std::string& name, NodeId from, const auto& part) {
    NodeId last = part(block.norm_first ? graph.add(name + ".norm", layer_norm(), {from}) : from);
    last = add_dropout(graph, name + ".dropout", block.dropout, last);
    last = graph.add(name + ".sum", residual_add(false), {last, from});
    return block.norm_first ? last : graph.add(name + ".norm", layer_norm(), {last});
  };
  const NodeId attended = add_part(block.name + ".part1", input, [&](NodeId last) {
    const std::int64_t width = graph.nodes()[last].output[2];
    const std::string name = block.name + ".attention";
    last = graph.add(name + ".qkv", transformer_linear(3 * width, block.init.inner), {last});
    last = graph.add(name, attention(block.heads, block.causal), {last});
    return graph.add(name + ".output", transformer_linear(width, block.init.last), {last});
  });
  const NodeId last = add_part(block.name + ".part2", attended, [&](NodeId from) {
    return add_feed_forward(graph, from,
                            {block.name + ".feed_forward", block.feed_forward, block.activation, block.init});
  });
  graph.make_block(first);
  return last;
}

}  // namespace dragonn::layers

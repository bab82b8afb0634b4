// SPDX-License-Identifier: MIT
#include "bench/exchange/stand_in.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/gradients.h"
#include "core/error.h"

namespace dragonn::bench {
namespace {

using layers::LayerGraph;
using layers::ParameterSpec;

struct StandInLayer {
  std::uint64_t seed = 0;
  std::vector<ParameterSpec> parameters = {};
  double forward_flops = 0;
  std::int64_t outputs = 1;
};

layers::Layer make_layer(const StandInLayer& spec) {
  return {.kind = "stand-in",
          .traits = {.is_random = true},
          .output_shape = [outputs = spec.outputs](layers::Shapes inputs) -> Shape {
            return {inputs[0][0], outputs};
          },
          .parameters = [parameters = spec.parameters](layers::Shapes) { return parameters; },
          .forward_flops = [flops = spec.forward_flops](layers::Shapes) { return flops; },
          .plan =
              [seed = spec.seed](const layers::PlanContext&) {
                return layers::layer_plan(
                    [](const layers::ForwardPass& pass) { std::ranges::fill(pass.output.host(), 0.0f); },
                    [seed](const layers::BackwardPass& pass) {
                      const std::uint64_t step = pass.stream.host()[0];  // of this rank alone
                      for (const View<float>& gradient : pass.parameter_gradients)
                        draw_worker_gradient({.seed = seed, .correlation = 0}, step, /*rank=*/0, gradient.host());
                      for (const auto& gradient : pass.input_gradients) std::ranges::fill(gradient.host(), 0.0f);
                    });
              }};
}

/// Returns the tensor `name` of a layer with a shorter last axis.
ParameterSpec shortened(const ParameterSpec& tensor, const std::string& layer, std::int64_t scale) {
  std::vector<std::int64_t> extents(tensor.shape.extents().begin(), tensor.shape.extents().end());
  if (extents.back() % scale != 0) {
    throw ConfigError(fmt::format("--scale {}: it must divide the last axis of {}, {}", scale, tensor.name,
                                  tensor.shape.to_string()));
  }
  extents.back() /= scale;
  return {.name = tensor.name.substr(layer.size() + 1), .shape = Shape(extents), .role = tensor.role};
}

}  // namespace

std::unique_ptr<LayerGraph> make_stand_in(const LayerGraph& model, std::int64_t scale,
                                          const layers::ModelContext& data) {
  auto graph = std::make_unique<LayerGraph>(data.sample_shape);
  layers::NodeId last = LayerGraph::input();
  std::vector<bool> taken(model.parameters().size());
  for (const layers::Node& node : model.nodes()) {
    if (node.layer == nullptr) continue;
    StandInLayer layer{
        .seed = last + 1, .forward_flops = node.layer->forward_flops(node.input_shapes), .outputs = data.classes};
    for (const std::size_t id : node.parameters) {
      if (!taken[id]) layer.parameters.push_back(shortened(model.parameters()[id], node.name, scale));
      taken[id] = true;
    }
    if (layer.parameters.empty() && layer.forward_flops == 0) continue;
    last = graph->add(node.name, make_layer(layer), {last});
  }
  return graph;
}

}  // namespace dragonn::bench

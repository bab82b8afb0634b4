// SPDX-License-Identifier: MIT
#include "layers/network.h"

#include <utility>

#include "kernels/elementwise.h"
#include "kernels/softmax_cross_entropy.h"
#include "layers/graph.h"
#include "layers/graph_plan.h"

namespace dragonn::layers {

struct Network::Impl {
  Impl(std::unique_ptr<LayerGraph> graph_layers, double smoothing, Device on)
      : graph(std::move(graph_layers)),
        label_smoothing(smoothing),
        device(on),
        arena(on),
        statistics(0, on),
        workspace(0, on) {}

  std::size_t statistics_size() const {
    std::size_t size = 0;
    for (const StatisticsSpec& spec : graph->statistics()) size += spec.size;
    return size;
  }
  GraphPlan& plan_for(std::size_t batch, Mode mode);

  std::unique_ptr<LayerGraph> graph;
  double label_smoothing;
  Device device;
  ParameterArena arena;
  Buffer<float> statistics;
  Buffer<float> workspace;  // shared by the plans: one runs at a time
  std::vector<std::unique_ptr<GraphPlan>> plans;
  GraphPlan* current = nullptr;  // of the last forward
  std::uint64_t seed = 0;
  PassKey key;
};

GraphPlan& Network::Impl::plan_for(std::size_t batch, Mode mode) {
  GraphPlan* plan = nullptr;
  for (const auto& candidate : plans)
    if (candidate->batch() == batch && candidate->mode() == mode) plan = candidate.get();
  if (plan == nullptr) {
    plans.push_back(std::make_unique<GraphPlan>(*graph, batch, mode, device));
    plan = plans.back().get();
  }
  if (plan->workspace_floats() > workspace.size()) workspace.resize_discard(plan->workspace_floats());
  plan->bind(workspace.view(), arena, statistics.view());
  return *plan;
}

Network::Network(std::unique_ptr<LayerGraph> layers, double label_smoothing, Device device)
    : impl_(std::make_unique<Impl>(std::move(layers), label_smoothing, device)) {
  const Shape& output = impl_->graph->nodes().back().output;
  if (output.rank() != 2)
    throw ShapeError(fmt::format("a network must end in [batch, classes], not {}", output.to_string()));
  for (const ParameterSpec& spec : impl_->graph->parameters()) impl_->arena.declare(spec.name, spec.shape, spec.role);
  impl_->arena.lay_out();
}

Network::~Network() = default;
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;

const Shape& Network::sample_shape() const {
  return impl_->graph->sample_shape();
}

int Network::classes() const {
  return static_cast<int>(impl_->graph->nodes().back().output[1]);
}

std::vector<LayerSummary> Network::summary() const {
  const LayerGraph& graph = *impl_->graph;
  std::vector<bool> counted(graph.parameters().size());  // a tied parameter counts where it first appears
  std::vector<LayerSummary> layers;
  for (const Node& node : graph.nodes()) {
    if (node.layer == nullptr) continue;
    LayerSummary layer{node.name, node.layer->kind(), node.output, 0, node.layer->forward_flops(node.input_shapes)};
    for (std::size_t parameter : node.parameters) {
      if (!counted[parameter]) layer.parameters += graph.parameters()[parameter].shape.size();
      counted[parameter] = true;
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

MemoryEstimate Network::memory(std::size_t batch) const {
  const GraphPlan plan(*impl_->graph, batch, Mode::kTrain, impl_->device);
  const std::size_t parameters = impl_->arena.size() * sizeof(float);
  const std::size_t kept = plan.kept_floats();
  return {parameters, parameters, kept * sizeof(float), (plan.workspace_floats() - kept) * sizeof(float)};
}

double Network::training_flops() const {
  return impl_->graph->training_flops();
}

void Network::initialize(std::uint64_t seed) {
  Impl& impl = *impl_;
  impl.seed = seed;
  impl.arena.allocate();
  // Drawn on the host, so that all devices start from the same bits.
  std::vector<float> values(impl.arena.size());
  for (ParameterId id = 0; id < impl.arena.parameters().size(); ++id) {
    Rng stream(seed, "initialize", {id});
    const Parameter& parameter = impl.arena[id];
    impl.graph->parameters()[id].initializer.fill(std::span(values).subspan(parameter.offset, parameter.size), stream);
  }
  kernels::copy(View<const float>(values), impl.arena.values());
  std::vector<float> statistics;
  for (const StatisticsSpec& spec : impl.graph->statistics())
    statistics.insert(statistics.end(), spec.size, spec.initial);
  impl.statistics.resize_discard(statistics.size());
  kernels::copy(View<const float>(statistics), impl.statistics.view());
}

ParameterArena& Network::arena() {
  return impl_->arena;
}
const ParameterArena& Network::arena() const {
  return impl_->arena;
}

View<float> Network::statistics() {
  return impl_->statistics.view();
}

LossResult Network::forward(View<const float> inputs, View<const std::int32_t> labels, std::size_t batch, Mode mode,
                            std::uint64_t step, int rank) {
  Impl& impl = *impl_;
  DRAGONN_CHECK(impl.arena.values().size() == impl.arena.size(), "forward before initialize");
  if (batch == 0 || inputs.size() != batch * sample_shape().size() || labels.size() != batch)
    throw ShapeError(fmt::format("a batch of {} samples of {} with {} values and {} labels", batch,
                                 sample_shape().to_string(), inputs.size(), labels.size()));
  GraphPlan& plan = impl.plan_for(batch, mode);
  impl.current = &plan;
  impl.key = {impl.seed, step, rank};
  kernels::copy(inputs, plan.input());
  plan.forward(impl.key);
  const bool training = mode == Mode::kTrain;
  const kernels::CrossEntropy loss = kernels::softmax_cross_entropy(
      plan.output(), labels, static_cast<std::size_t>(classes()), training ? impl.label_smoothing : 0.0,
      training ? plan.output_gradient() : View<float>());
  return {loss.loss_sum, loss.correct, batch};
}

void Network::backward(const GradientReady& ready) {
  DRAGONN_CHECK(impl_->current != nullptr, "backward before forward");
  impl_->current->backward(impl_->key, ready);
}

View<const float> Network::logits() const {
  return impl_->current == nullptr ? View<const float>() : View<const float>(impl_->current->output());
}

}  // namespace dragonn::layers

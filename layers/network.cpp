// SPDX-License-Identifier: MIT
#include "layers/network.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"
#include "kernels/trace.h"
#include "layers/graph.h"
#include "layers/graph_plan.h"

namespace dragonn::layers {

namespace {

/// A plan with its loss, for one batch size, number of steps and mode.
struct PreparedPlan {
  PreparedPlan(const LayerGraph& graph, std::size_t batch, Mode mode, Device device, kernels::ElementType type,
               const Execution& execution)
      : layers(graph, batch, mode, device, /*input_gradient=*/false, type, execution),
        loss(graph.loss().plan(device, graph.nodes().back().output.with_batch(static_cast<std::int64_t>(batch)),
                               graph.classes())) {}

  GraphPlan layers;
  LossPlan loss;
};

/// The state that is carried to the next batch of one mode.
struct CarriedState {
  Buffer<float> values;
  std::size_t batch = 0;  ///< 0: the next batch starts with zeros
};

/// Runs the last layer and the loss by chunks of rows.
LossResult run_chunks(PreparedPlan& plan, const Targets& targets, double label_smoothing) {
  const LayerGraph& graph = plan.layers.graph();
  const bool training = plan.layers.mode() == Mode::kTrain;
  if (targets.labels.size() != output_rows(graph, plan.layers.batch()))
    throw ShapeError(fmt::format("a loss of {} rows with {} labels", output_rows(graph, plan.layers.batch()),
                                 targets.labels.size()));
  const std::size_t count = kernels::count_labels(targets.labels, graph.classes());
  LossResult sums;
  const auto add = [&](const OutputChunk& chunk) {
    const kernels::TraceRange range(chunk.output.device(), "loss");
    const LossResult own = plan.loss({.outputs = chunk.output,
                                      .targets = {targets.labels.subview(chunk.begin, chunk.rows), {}},
                                      .lengths = {},
                                      .label_smoothing = label_smoothing,
                                      .gradient = training ? chunk.output : kernels::TypedView<float>(),
                                      .count = count});
    sums.loss_sum += own.loss_sum;
    sums.correct += own.correct;
    sums.count += own.count;
  };
  plan.layers.run_chunks(std::ref(add));
  return sums;
}

}  // namespace

struct Network::Impl {
  Impl(std::unique_ptr<LayerGraph> graph_layers, double smoothing, Device on, const Execution& how)
      : label_smoothing(smoothing),
        device(on),
        execution(how),
        arena(on),
        statistics(0, on),
        workspace(0, on),
        logits(0, on) {
    kernels::check_math(on, how.math);
    check_recompute(*graph_layers, how.recompute);
    for (CarriedState& state : states) state.values = Buffer<float>(0, on);
    graphs.push_back(std::move(graph_layers));
  }

  std::size_t state_size() const {
    std::size_t size = 0;
    for (const StateSpec& spec : graph().states()) size += spec.size;
    return size;
  }
  const LayerGraph& graph() const { return *graphs.front(); }
  CarriedState& carried(Mode mode) { return states[mode == Mode::kTrain ? 0 : 1]; }
  GraphPlan make_plan(std::size_t batch, Mode mode) const {
    return {graph(), batch, mode, device, /*input_gradient=*/false, activation_type(), execution};
  }

  const LayerGraph& graph_of(std::int64_t steps) {
    if (steps == 0) return graph();
    for (const auto& candidate : graphs)
      if (candidate->sample_shape()[0] == steps) return *candidate;
    graphs.push_back(std::make_unique<LayerGraph>(graph().with_steps(steps)));
    return *graphs.back();
  }

  /// Returns the type of activations in memory: what goes with the device's precision, if all layers take it.
  kernels::ElementType activation_type() const {
    using kernels::ElementType;
    if (kernels::storage_type(execution.math) == ElementType::kFloat32) return ElementType::kFloat32;
    const std::string obstacle = bf16_obstacle(graph());
    if (obstacle.empty()) return ElementType::kBf16;
    if (!std::exchange(told_obstacle, true))
      log::warning(std::max(this_rank(), 0), "device_math = \"bf16\": activations stay float32 in memory, because {}",
                   obstacle);
    return ElementType::kFloat32;
  }

  View<float> state_for(std::size_t batch, Mode mode) {
    if (state_size() == 0) return {};
    CarriedState& state = carried(mode);
    if (state.batch == 0) {
      state.values.resize_discard(state_size() * batch);
      kernels::fill(0, state.values.view());
      state.batch = batch;
    }
    DRAGONN_CHECK(state.batch == batch, "a batch of {} samples goes on from the state of {}: reset the state before it",
                  batch, state.batch);
    return state.values.view();
  }

  PreparedPlan& plan_for(const NetworkBatch& batch, Mode mode) {
    const LayerGraph& layers = graph_of(batch.steps);
    PreparedPlan* plan = nullptr;
    for (const auto& candidate : plans)
      if (&candidate->layers.graph() == &layers && candidate->layers.batch() == batch.size &&
          candidate->layers.mode() == mode)
        plan = candidate.get();
    if (plan == nullptr) {
      plans.push_back(std::make_unique<PreparedPlan>(layers, batch.size, mode, device, activation_type(), execution));
      plan = plans.back().get();
    }
    const std::size_t floats = plan->layers.workspace_floats();
    if (floats > workspace.size()) workspace.resize_discard(floats);
    plan->layers.bind(workspace.view(), arena, statistics.view(), state_for(batch.size, mode));
    return *plan;
  }

  std::vector<std::unique_ptr<LayerGraph>> graphs;  // as built, then those of other numbers of steps
  double label_smoothing;
  Device device;
  Execution execution;
  ParameterArena arena;
  Buffer<float> statistics;
  Buffer<float> workspace;             // shared by the plans: one runs at a time
  std::array<CarriedState, 2> states;  // of training and evaluation
  std::vector<std::unique_ptr<PreparedPlan>> plans;
  PreparedPlan* current = nullptr;  // of the last forward
  Buffer<float> logits;             // as float32, if the plan has them in bf16
  mutable bool told_obstacle = false;
  std::uint64_t seed = 0;
};

Network::Network(std::unique_ptr<LayerGraph> layers, double label_smoothing, Device device, const Execution& execution)
    : impl_(std::make_unique<Impl>(std::move(layers), label_smoothing, device, execution)) {
  const Loss& loss = impl_->graph().loss();
  const Shape& output = impl_->graph().nodes().back().output;
  if (output.rank() != loss.rank)
    throw ShapeError(fmt::format("a network with {} must end in [batch, {}classes], not {}", loss.name,
                                 loss.rank == 3 ? "steps, " : "", output.to_string()));
  if (impl_->graph().chunk_rows() > 0 && !(loss.sums_rows && impl_->graph().nodes().back().traits.works_by_rows))
    throw ShapeError(fmt::format("{} of a network that ends in {} does not run in chunks of rows", loss.name,
                                 impl_->graph().nodes().back().layer->kind));
  const std::vector<ParameterRole> roles = impl_->graph().roles();
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const ParameterSpec& spec = impl_->graph().parameters()[i];
    impl_->arena.declare(spec.name, spec.shape, roles[i]);
  }
  impl_->arena.lay_out();
}

Network::~Network() = default;
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;

const LayerGraph& Network::graph() const {
  return impl_->graph();
}

const Shape& Network::sample_shape() const {
  return impl_->graph().sample_shape();
}

int Network::classes() const {
  return static_cast<int>(impl_->graph().classes());
}

TargetKind Network::target_kind() const {
  return impl_->graph().loss().targets;
}

std::vector<LayerSummary> Network::summary() const {
  const LayerGraph& graph = impl_->graph();
  std::vector<bool> counted(graph.parameters().size());  // a tied parameter counts where it first appears
  const std::vector<double> backward_flops = graph.backward_flops();
  std::vector<LayerSummary> layers;
  for (NodeId id = 1; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    LayerSummary layer{.name = node.name,
                       .kind = node.layer->kind,
                       .output = node.output,
                       .forward_flops = node.layer->forward_flops(node.input_shapes),
                       .backward_flops = backward_flops[id]};
    for (const Shape& input : node.input_shapes) layer.inputs += input.size();
    for (std::size_t parameter : node.parameters) {
      if (counted[parameter]) continue;
      counted[parameter] = true;
      const ParameterSpec& spec = graph.parameters()[parameter];
      layer.parameters += spec.shape.size();
      layer.padding += spec.shape.size() - spec.used_shape().size();
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

MemoryEstimate Network::memory(std::size_t batch) const {
  const GraphPlan plan = impl_->make_plan(batch, Mode::kTrain);
  const std::size_t parameters = impl_->arena.size() * sizeof(float);
  const std::size_t kept = plan.kept_floats();
  return {parameters, parameters, kept * sizeof(float), (plan.workspace_floats() - kept) * sizeof(float)};
}

std::size_t Network::evaluation_bytes(std::size_t batch) const {
  return impl_->make_plan(batch, Mode::kEvaluate).workspace_floats() * sizeof(float);
}

double Network::training_flops() const {
  return impl_->graph().training_flops();
}

void Network::initialize(std::uint64_t seed) {
  Impl& impl = *impl_;
  impl.seed = seed;
  impl.arena.allocate();
  // Drawn on the host: all devices start from the same bits. On the CPU in place: a copy would be a peak of memory.
  std::vector<float> drawn;
  for (ParameterId id = 0; id < impl.arena.parameters().size(); ++id) {
    Rng stream(seed, "initialize", {id});
    const View<float> value = impl.arena.value(id);
    const bool in_place = value.device().is_cpu();
    if (!in_place) drawn.resize(value.size());
    const ParameterSpec& spec = impl.graph().parameters()[id];
    const std::span<float> first = in_place ? value.host() : std::span(drawn);
    const std::size_t used = spec.used_shape().size();
    spec.initializer.fill(first.first(used), stream);
    std::ranges::fill(first.subspan(used), 0.0f);
    if (!in_place) kernels::copy(View<const float>(drawn), value);
  }
  std::vector<float> statistics;
  for (const StatisticsSpec& spec : impl.graph().statistics())
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

std::vector<ModelTensor> Network::tensors() {
  const LayerGraph& graph = impl_->graph();
  std::vector<ModelTensor> tensors;
  for (ParameterId id = 0; id < arena().parameters().size(); ++id) {
    const Shape shape = graph.parameters()[id].used_shape();
    tensors.push_back({arena()[id].name, shape, arena().value(id).subview(0, shape.size())});
  }
  std::size_t offset = 0;
  for (const StatisticsSpec& spec : graph.statistics()) {
    const Shape shape{static_cast<std::int64_t>(spec.size)};
    tensors.push_back({spec.name, shape, statistics().subview(offset, spec.size)});
    offset += spec.size;
  }
  for (NodeId id = 1; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (node.inputs.empty()) continue;
    const Shape& image = graph.nodes()[node.inputs[0]].image;
    for (std::size_t index : node.parameters)
      if (graph.parameters()[index].spans_features) tensors[index].image = image;
    for (std::size_t index : node.statistics) tensors[arena().parameters().size() + index].image = image;
  }
  return tensors;
}

void Network::reset_state(Mode mode) {
  impl_->carried(mode).batch = 0;
}

View<float> Network::state(Mode mode) {
  CarriedState& state = impl_->carried(mode);
  return state.batch == 0 ? View<float>() : state.values.view();
}

bool Network::carries_state() const {
  return impl_->state_size() > 0;
}

void Network::set_state(Mode mode, std::size_t batch, View<const float> state) {
  if (state.size() != impl_->state_size() * batch)
    throw ShapeError(fmt::format("a state of {} values for a batch of {}: it has {} per sample", state.size(), batch,
                                 impl_->state_size()));
  impl_->carried(mode).batch = 0;
  kernels::copy(state, impl_->state_for(batch, mode));
}

void Network::resize(View<const float> mean_statistics) {
  const std::vector<StatisticsSpec>& statistics = impl_->graph().statistics();
  const std::vector<StateSpec>& states = impl_->graph().states();
  const auto refuses = [](const auto& specs, const std::vector<std::size_t>& own,
                          std::initializer_list<OnResize> taken) {
    return std::ranges::any_of(
        own, [&](std::size_t index) { return std::ranges::find(taken, specs[index].on_resize) == taken.end(); });
  };
  for (const Node& node : impl_->graph().nodes()) {
    if (!refuses(statistics, node.statistics, {OnResize::kReshard, OnResize::kRestart}) &&
        !refuses(states, node.states, {OnResize::kRestart}))
      continue;
    throw ConfigError(fmt::format(
        "layer '{}' ({}) has state, and no rule for what becomes of it on another number of workers: resume with as "
        "many workers as before",
        node.name, node.layer->kind));
  }
  std::size_t offset = 0;
  for (const StatisticsSpec& spec : statistics) {
    const View<float> own = this->statistics().subview(offset, spec.size);
    if (spec.on_resize == OnResize::kReshard)
      kernels::copy(mean_statistics.subview(offset, spec.size), own);
    else
      kernels::fill(spec.initial, own);
    offset += spec.size;
  }
  reset_state(Mode::kTrain);
}

LossResult Network::forward(const NetworkBatch& batch, Mode mode, std::uint64_t step, int rank) {
  Impl& impl = *impl_;
  DRAGONN_CHECK(impl.arena.values().size() == impl.arena.size(), "forward before initialize");
  const Shape sample = batch.steps == 0 ? sample_shape() : sample_shape().with_batch(batch.steps);
  if (batch.size == 0 || batch.inputs.size() != batch.size * sample.size() ||
      (!batch.lengths.empty() && batch.lengths.size() != batch.size))
    throw ShapeError(fmt::format("a batch of {} samples of {} with {} values and {} lengths", batch.size,
                                 sample.to_string(), batch.inputs.size(), batch.lengths.size()));
  const std::span<const std::int32_t> lengths = batch.lengths.host();
  for (std::size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] < 0 || lengths[i] > sample[0])
      throw DataError(
          fmt::format("length {} of sample {} of the batch: valid are 0 to {} time steps", lengths[i], i, sample[0]));
  PreparedPlan& plan = impl.plan_for(batch, mode);
  impl.current = &plan;
  kernels::start_transfer(batch.inputs, plan.layers.input());  // the loss waits for all that was started
  plan.layers.forward({impl.seed, step, rank}, lengths);
  const bool training = mode == Mode::kTrain;
  if (plan.layers.runs_in_chunks()) return run_chunks(plan, batch.targets, training ? impl.label_smoothing : 0.0);
  const kernels::TraceRange range(impl.device, "loss");
  return plan.loss({plan.layers.output(), batch.targets, plan.layers.output_lengths(),
                    training ? impl.label_smoothing : 0.0,
                    training ? plan.layers.output_gradient() : kernels::TypedView<float>()});
}

void Network::backward(const GradientReady& ready) {
  DRAGONN_CHECK(impl_->current != nullptr, "backward before forward");
  impl_->current->layers.backward(ready);
}

std::vector<LayerDescription> Network::describe() const {
  return impl_->current == nullptr ? std::vector<LayerDescription>() : impl_->current->layers.describe();
}

std::string Network::repetition_obstacle() const {
  for (const auto& plan : impl_->plans)
    if (!plan->layers.repetition_obstacle().empty()) return plan->layers.repetition_obstacle();
  return {};
}

View<const float> Network::logits() const {
  if (impl_->current == nullptr) return {};
  GraphPlan& plan = impl_->current->layers;
  const LayerGraph& graph = plan.graph();
  const std::size_t classes = graph.classes(), columns = graph.columns(), rows = output_rows(graph, plan.batch());
  const bool in_chunks = plan.runs_in_chunks();
  if (!in_chunks && classes == columns && plan.output().type() == kernels::ElementType::kFloat32)
    return plan.output().floats();
  impl_->logits.resize_discard(rows * classes);
  const auto take = [&](const OutputChunk& chunk) {
    const View<float> logits = impl_->logits.view().subview(chunk.begin * classes, chunk.rows * classes);
    if (classes == columns) return kernels::convert(chunk.output, logits);
    for (std::size_t row = 0; row < chunk.rows; ++row)
      kernels::convert(chunk.output.subview(row * columns, classes), logits.subview(row * classes, classes));
  };
  if (in_chunks)
    plan.compute_chunks(std::ref(take));
  else
    take({0, rows, plan.output()});
  return impl_->logits.view();
}

Shape Network::logits_shape() const {
  DRAGONN_CHECK(impl_->current != nullptr, "the shape of logits before forward");
  const GraphPlan& plan = impl_->current->layers;
  std::vector<std::int64_t> extents(plan.graph().nodes().back().output.extents().begin(),
                                    plan.graph().nodes().back().output.extents().end());
  extents.front() = static_cast<std::int64_t>(plan.batch());
  extents.back() = classes();
  return Shape(extents);
}

std::span<const std::int32_t> Network::logits_lengths() const {
  return impl_->current == nullptr ? std::span<const std::int32_t>() : impl_->current->layers.output_lengths();
}

}  // namespace dragonn::layers

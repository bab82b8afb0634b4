// SPDX-License-Identifier: MIT
#include "layers/graph_plan.h"

#include <algorithm>
#include <utility>

#include "core/rng.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"
#include "kernels/trace.h"

namespace dragonn::layers {

using kernels::TypedView;

/// The views of one pass of a node, besides those that are the same in all.
struct GraphPlan::Run {
  std::vector<TypedView<const float>> inputs;
  TypedView<float> output;
  View<float> saved, scratch;
};

/// The views of one node, bound once so that a pass allocates nothing.
struct GraphPlan::Step {
  struct Sum {
    TypedView<float> target;
    TypedView<const float> addend;
  };

  Run forward, again, backward;
  std::vector<TypedView<const float>> output_gradients;
  std::vector<TypedView<float>> input_gradients;
  std::vector<View<const float>> parameters;
  std::vector<View<float>> statistics, states, parameter_gradients;
  std::vector<Sum> sums;  // of output gradients, and of a tied parameter's gradient into the arena
};

namespace {

template <class Spec>
std::vector<View<float>> cut(View<float> memory, const std::vector<Spec>& specs, std::size_t copies) {
  std::vector<View<float>> views;
  std::size_t offset = 0;
  for (const Spec& spec : specs) {
    views.push_back(memory.subview(offset, spec.size * copies));
    offset += spec.size * copies;
  }
  return views;
}

/// Returns the context of a plan for another number of rows, of a layer that works by rows.
PlanContext with_rows(PlanContext context, std::size_t rows) {
  for (Shape* shape : {&context.inputs[0], &context.output})
    *shape = {static_cast<std::int64_t>(rows), shape->extents().back()};
  return context;
}

/// Returns the number of random streams: one for each node if any layer draws, else 0.
std::size_t count_streams(const LayerGraph& graph, Mode mode) {
  const auto is_random = [](const Node& node) { return node.traits.is_random; };
  return mode == Mode::kTrain && std::ranges::any_of(graph.nodes(), is_random) ? graph.nodes().size() : 0;
}

}  // namespace

std::string bf16_obstacle(const LayerGraph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.layer == nullptr) continue;
    const bool reads_result = node.traits.takes_tokens && node.inputs[0] != LayerGraph::input();
    if (!node.traits.takes_bf16 || reads_result)
      return fmt::format("layer {} ({}) takes float32 only", node.name, node.layer->kind);
  }
  return {};
}

GraphPlan::GraphPlan(const LayerGraph& graph, std::size_t batch, Mode mode, Device device, bool input_gradient,
                     kernels::ElementType type, const Execution& execution)
    : graph_(graph),
      batch_(batch),
      mode_(mode),
      types_(element_types(graph, type)),
      plans_(make_plans(device, input_gradient, type, execution.math)),
      schedule_(graph, batch, mode, input_gradient, plan_memory(), types_, execution.recompute),
      workspace_(nullptr, 0, device),
      lengths_(graph.nodes().size() * batch),
      steps_(graph.nodes().size()),
      stream_keys_(count_streams(graph, mode), host_memory_for(device)),
      streams_(stream_keys_.size(), device),
      forward_work_(device, execution.records),
      backward_work_(device, execution.records) {}

GraphPlan::~GraphPlan() = default;

std::vector<std::unique_ptr<LayerPlan>> GraphPlan::make_plans(Device device, bool input_gradient,
                                                              kernels::ElementType type, kernels::DeviceMath math) {
  const std::vector<bool> needs = graph_.gradient_needs(input_gradient);
  const auto batch = static_cast<std::int64_t>(batch_);
  std::vector<std::unique_ptr<LayerPlan>> plans;
  for (const Node& node : graph_.nodes()) {
    PlanContext context{device, mode_, {}, node.output.with_batch(batch), {}, type, math};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      context.inputs.push_back(node.input_shapes[i].with_batch(batch));
      context.input_gradients.push_back(needs[node.inputs[i]]);
    }
    const std::size_t chunk = plans.size() == graph_.output() ? chunk_rows(graph_, batch_) : 0;
    if (chunk > 0) {
      const std::size_t rest = output_rows(graph_, batch_) % chunk;
      if (rest > 0) last_chunk_plan_ = node.layer->plan(with_rows(context, rest));
      context = with_rows(std::move(context), chunk);
    }
    plans.push_back(node.layer == nullptr || node.traits.is_view ? nullptr : node.layer->plan(context));
  }
  return plans;
}

std::vector<kernels::PlanMemory> GraphPlan::plan_memory() const {
  std::vector<kernels::PlanMemory> memory;
  for (const auto& plan : plans_) memory.push_back(plan == nullptr ? kernels::PlanMemory{} : plan->memory());
  if (last_chunk_plan_ != nullptr) {
    const kernels::PlanMemory last = last_chunk_plan_->memory();
    kernels::PlanMemory& all = memory.back();
    all = {std::max(all.saved, last.saved), std::max(all.forward_scratch, last.forward_scratch),
           std::max(all.backward_scratch, last.backward_scratch)};
  }
  return memory;
}

std::vector<LayerDescription> GraphPlan::describe() const {
  std::vector<LayerDescription> layers;
  for (NodeId id = 1; id < plans_.size(); ++id) {
    if (plans_[id] == nullptr) continue;
    std::vector<kernels::PassDescription> passes = plans_[id]->describe();
    if (!passes.empty()) layers.push_back({graph_.nodes()[id].name, std::move(passes)});
  }
  return layers;
}

View<float> GraphPlan::memory(MemoryPlanner::Block block, std::size_t floats) const {
  if (block == kNoBlock) return {};
  return workspace_.subview(schedule_.memory().offset(block), floats);
}

View<float> GraphPlan::whole(MemoryPlanner::Block block) const {
  return block == kNoBlock ? View<float>() : memory(block, schedule_.memory().size(block));
}

TypedView<float> GraphPlan::values(MemoryPlanner::Block block, NodeId node) const {
  const std::size_t size = block == kNoBlock ? 0 : elements(node);
  const View<float> floats = memory(block, kernels::floats_of(types_[node], size));
  return {floats.data(), size, types_[node], floats.device()};
}

void GraphPlan::bind(View<float> workspace, ParameterArena& arena, View<float> statistics, View<float> states) {
  if (workspace.data() == workspace_.data() && arena.values().data() == bound_values_ &&
      statistics.data() == bound_statistics_ && states.data() == bound_states_)
    return;
  if (workspace.size() < workspace_floats())
    throw ShapeError(fmt::format("a workspace of {} floats: {} are needed", workspace.size(), workspace_floats()));
  workspace_ = workspace;
  bound_values_ = arena.values().data();
  bound_statistics_ = statistics.data();
  bound_states_ = states.data();
  const std::vector<View<float>> all_statistics = cut(statistics, graph_.statistics(), 1);
  const std::vector<View<float>> all_states = cut(states, graph_.states(), batch_);
  for (NodeId id = 1; id < steps_.size(); ++id) {
    const Node& node = graph_.nodes()[id];
    const NodeSchedule& blocks = schedule_[id];
    Step step;
    const bool runs_again = schedule_.again_time(id) != GraphSchedule::kNever;
    step.forward = run_at(id, schedule_.forward_time(id), blocks.forward.saved, blocks.forward.scratch);
    if (runs_again) step.again = run_at(id, schedule_.again_time(id), blocks.again.saved, blocks.again.scratch);
    for (std::size_t index : node.statistics) step.statistics.push_back(all_statistics[index]);
    for (std::size_t index : node.states) step.states.push_back(all_states[index]);
    for (ParameterId parameter : node.parameters) step.parameters.push_back(arena.value(parameter));
    if (blocks.runs_backward) {
      step.backward = run_at(id, schedule_.backward_time(id), runs_again ? blocks.again.saved : blocks.forward.saved,
                             blocks.backward_scratch);
      bind_backward(id, arena, step);
    }
    steps_[id] = std::move(step);
  }
  forward_work_.forget();
  backward_work_.forget();
}

GraphPlan::Run GraphPlan::run_at(NodeId id, std::size_t time, MemoryPlanner::Block saved,
                                 MemoryPlanner::Block scratch) const {
  Run run{{}, values(schedule_.value(id, time), id), whole(saved), whole(scratch)};
  for (NodeId input : graph_.nodes()[id].inputs) run.inputs.push_back(values(schedule_.value(input, time), input));
  return run;
}

void GraphPlan::bind_backward(NodeId id, ParameterArena& arena, Step& step) const {
  const Node& node = graph_.nodes()[id];
  const NodeSchedule& blocks = schedule_[id];
  for (MemoryPlanner::Block block : blocks.output_gradients) step.output_gradients.push_back(values(block, id));
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    step.input_gradients.push_back(values(blocks.input_gradients[i], node.inputs[i]));
  for (const NodeSchedule::Sum& sum : blocks.sums)
    step.sums.push_back({values(sum.target, sum.node), values(sum.addend, sum.node)});
  for (std::size_t i = 0; i < node.parameters.size(); ++i) {
    const View<float> arena_gradient = arena.gradient(node.parameters[i]);
    const View<float> own = memory(blocks.parameter_gradients[i], arena_gradient.size());
    step.parameter_gradients.push_back(own.empty() ? arena_gradient : own);
    if (!own.empty()) step.sums.push_back({arena_gradient, own});
  }
}

void GraphPlan::derive_lengths(std::span<const std::int32_t> lengths) {
  has_lengths_ = !lengths.empty();
  if (!has_lengths_) return;
  DRAGONN_CHECK(lengths.size() == batch_, "{} lengths for {} samples", lengths.size(), batch_);
  std::ranges::copy(lengths, lengths_.begin());
  for (NodeId id = 1; id < steps_.size(); ++id) {
    const Node& node = graph_.nodes()[id];
    for (std::size_t sample = 0; sample < batch_; ++sample)
      lengths_[id * batch_ + sample] =
          static_cast<std::int32_t>(node.layer->output_steps(lengths_[node.inputs[0] * batch_ + sample]));
  }
}

void GraphPlan::forward(const PassKey& key, std::span<const std::int32_t> lengths) {
  derive_lengths(lengths);
  for (NodeId id = 0; id < stream_keys_.size(); ++id)
    stream_keys_.data()[id] = stream_key(key.seed, "layer", {key.step, static_cast<std::uint64_t>(key.rank), id});
  kernels::start_transfer(std::as_const(stream_keys_).view(), streams_.view());
  if (has_lengths_)
    run_forward();
  else
    forward_work_.run([this] { run_forward(); });
}

void GraphPlan::run_forward() {
  const TypedView<float> input = values(schedule_[LayerGraph::input()].forward.output, LayerGraph::input());
  if (input.type() != kernels::ElementType::kFloat32) kernels::convert(this->input(), input);
  for (NodeId id = 1; id < steps_.size(); ++id) {
    if (plans_[id] == nullptr || (id == graph_.output() && runs_in_chunks())) continue;
    run_layer(id, steps_[id].forward);
  }
}

void GraphPlan::run_layer(NodeId id, const Run& run) {
  const Step& step = steps_[id];
  const kernels::TraceRange range(workspace_.device(), graph_.nodes()[id].name.c_str());
  plans_[id]->forward({run.inputs, step.parameters, step.statistics, step.states, lengths_of(id), run.output, run.saved,
                       run.scratch, stream(id)});
}

void GraphPlan::for_each_chunk(const ChunkBody& body) {
  const NodeId last = graph_.output();
  const Step& step = steps_[last];
  const std::size_t rows = output_rows(graph_, batch_), chunk = schedule_.chunk_rows(), columns = graph_.columns();
  const std::size_t features = step.forward.inputs[0].size() / rows;
  const kernels::TraceRange range(workspace_.device(), graph_.nodes()[last].name.c_str());
  for (std::size_t begin = 0; begin < rows; begin += chunk) {
    const std::size_t count = std::min(chunk, rows - begin);
    LayerPlan& plan = count == chunk ? *plans_[last] : *last_chunk_plan_;
    const TypedView<const float> input = step.forward.inputs[0].subview(begin * features, count * features);
    const OutputChunk part{begin, count, step.forward.output.subview(0, count * columns)};
    plan.forward({.inputs = {&input, 1},
                  .parameters = step.parameters,
                  .output = part.output,
                  .saved = step.forward.saved,
                  .scratch = step.forward.scratch});
    body(plan, input, part);
  }
}

void GraphPlan::run_chunks(const ChunkFunction& loss) {
  const Step& step = steps_[graph_.output()];
  const auto run = [&](LayerPlan& plan, TypedView<const float> input, const OutputChunk& chunk) {
    loss(chunk);
    if (mode_ != Mode::kTrain) return;
    const TypedView<const float> gradient = chunk.output;
    TypedView<float> input_gradient = step.input_gradients[0];
    const std::size_t features = input.size() / chunk.rows;
    if (!input_gradient.empty()) input_gradient = input_gradient.subview(chunk.begin * features, input.size());
    plan.backward({.inputs = {&input, 1},
                   .parameters = step.parameters,
                   .output_gradients = {&gradient, 1},
                   .input_gradients = {&input_gradient, 1},
                   .parameter_gradients = step.parameter_gradients,
                   .saved = step.backward.saved,
                   .scratch = step.backward.scratch,
                   .adds_parameter_gradients = chunk.begin > 0});
  };
  for_each_chunk(std::ref(run));
}

void GraphPlan::compute_chunks(const ChunkFunction& take) {
  const auto run = [&](LayerPlan&, TypedView<const float>, const OutputChunk& chunk) { take(chunk); };
  for_each_chunk(std::ref(run));
}

void GraphPlan::backward(const std::function<void(ParameterId)>& ready) {
  DRAGONN_CHECK(mode_ == Mode::kTrain, "backward after a forward pass for evaluation");
  if (has_lengths_ || ready)
    run_backward(ready);
  else
    backward_work_.run([&] { run_backward(ready); });
}

void GraphPlan::run_backward(const std::function<void(ParameterId)>& ready) {
  for (const auto& [id, is_forward] : schedule_.later_passes()) {
    if (is_forward) {
      run_layer(id, steps_[id].again);
      continue;
    }
    const Step& step = steps_[id];
    const kernels::TraceRange range(workspace_.device(), graph_.nodes()[id].name.c_str());
    const bool has_run = id == graph_.output() && runs_in_chunks();
    if (plans_[id] != nullptr && !has_run)
      plans_[id]->backward({step.backward.inputs, step.backward.output, step.parameters, step.output_gradients,
                            step.input_gradients, step.parameter_gradients, lengths_of(id), step.backward.saved,
                            step.backward.scratch, stream(id), schedule_[id].adds_parameter_gradients});
    for (const Step::Sum& sum : step.sums) kernels::add(sum.target, sum.addend, sum.target);
    if (!ready || schedule_[id].ready.empty()) continue;
    kernels::synchronize(workspace_.device());  // final is what another thread, with a stream of its own, may read
    for (std::size_t parameter : schedule_[id].ready) ready(parameter);
  }
}

const std::string& GraphPlan::repetition_obstacle() const {
  return forward_work_.obstacle().empty() ? backward_work_.obstacle() : forward_work_.obstacle();
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
#include "layers/generator.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/buffer.h"
#include "core/error.h"
#include "layers/graph_schedule.h"

namespace dragonn::layers {
namespace {

/// The tokens of a piece of a long text: enough for matrix products at full rate.
constexpr std::size_t kPiece = 256;

/// @throws ConfigError unless the graph takes tokens.
const LayerGraph& language_model(const LayerGraph& graph) {
  if (std::ranges::any_of(graph.nodes(), [](const Node& node) { return node.traits.takes_tokens; })) return graph;
  throw ConfigError("the model does not take tokens: only a language model continues a text");
}

}  // namespace

/// The layers prepared for a number of new tokens, with their memory.
class Generator::Pass {
 public:
  Pass(const Generator& generator, std::size_t tokens);

  /// The tokens go here, and the logits come from there.
  std::span<float> input() { return values(LayerGraph::input()).host(); }
  std::span<const float> output() { return values(steps_.size() - 1).host(); }
  void run(std::size_t before);

 private:
  struct Step {
    std::unique_ptr<LayerPlan> plan;
    MemoryPlanner::Block output = kNoBlock, saved = kNoBlock, scratch = kNoBlock;
    std::size_t size = 0;  // of the output
    std::vector<kernels::TypedView<const float>> inputs;
    std::vector<View<const float>> parameters;
  };

  View<float> values(NodeId id) { return {memory_.data() + planner_.offset(steps_[id].output), steps_[id].size}; }
  View<float> whole(MemoryPlanner::Block block) {
    return {memory_.data() + planner_.offset(block), planner_.size(block)};
  }

  const std::vector<NextSteps>& next_steps_;
  std::vector<Step> steps_;  // by node
  MemoryPlanner planner_;
  Buffer<float> memory_;
};

Generator::Pass::Pass(const Generator& generator, std::size_t tokens)
    : next_steps_(generator.next_steps_), steps_(next_steps_.size()) {
  const LayerGraph piece = generator.whole_.with_steps(static_cast<std::int64_t>(tokens));
  const auto node_of = [&](NodeId id) -> const Node& {
    return (id > generator.looking_back_ ? generator.single_ : piece).nodes()[id];
  };
  for (NodeId id = 0; id < steps_.size(); ++id) {
    const Node& node = node_of(id);
    Step& step = steps_[id];
    step.size = node.output.size();
    step.output = planner_.add(step.size, id, id);
    for (const NodeId input : node.inputs) planner_.extend(steps_[input].output, id);
    if (node.layer == nullptr || next_steps_[id]) continue;
    step.plan = node.layer->plan({.device = {},
                                  .mode = Mode::kEvaluate,
                                  .inputs = node.input_shapes,
                                  .output = node.output,
                                  .input_gradients = std::vector<bool>(node.inputs.size())});
    const kernels::PlanMemory memory = step.plan->memory();
    step.saved = planner_.add(memory.saved, id, id);
    step.scratch = planner_.add(memory.forward_scratch, id, id);
  }
  planner_.place();
  memory_ = Buffer<float>(planner_.total());
  for (NodeId id = 1; id < steps_.size(); ++id) {
    const Node& node = node_of(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const View<float> values = this->values(node.inputs[i]);
      const std::size_t read = node.input_shapes[i].size();  // of a piece, the last token where only that is computed
      steps_[id].inputs.emplace_back(values.subview(values.size() - read, read));
    }
    for (const std::size_t parameter : node.parameters)
      steps_[id].parameters.emplace_back(generator.arena_.value(parameter));
  }
}

void Generator::Pass::run(std::size_t before) {
  for (NodeId id = 1; id < steps_.size(); ++id) {
    Step& step = steps_[id];
    ForwardPass pass{.inputs = step.inputs, .parameters = step.parameters, .output = values(id)};
    if (next_steps_[id]) {
      next_steps_[id](pass, before);
      continue;
    }
    pass.saved = whole(step.saved);
    pass.scratch = whole(step.scratch);
    step.plan->forward(pass);
  }
}

Generator::Generator(const LayerGraph& graph, ParameterArena& arena, std::int64_t longest)
    : whole_(language_model(graph).with_steps(longest)), single_(graph.with_steps(1)), arena_(arena) {
  const std::vector<Node>& nodes = whole_.nodes();
  next_steps_.resize(nodes.size());
  for (NodeId id = 1; id < nodes.size(); ++id) {
    const Node& node = nodes[id];
    if (node.traits.is_stepwise) continue;
    if (!node.layer->next_steps)
      throw ConfigError(fmt::format("layer {} ({}) cannot continue a text: expected a causal transformer", node.name,
                                    node.layer->kind));
    next_steps_[id] = node.layer->next_steps(node.input_shapes);
    looking_back_ = id;
  }
}

Generator::~Generator() = default;

std::span<const float> Generator::append(std::span<const std::int32_t> tokens) {
  DRAGONN_CHECK(!tokens.empty(), "no token to append to a text of {}", size_);
  if (tokens.size() > longest() - size_)
    throw ShapeError(fmt::format("a text of {} + {} tokens, and at most {}", size_, tokens.size(), longest()));
  for (;;) {
    const std::size_t count = std::min(kPiece, tokens.size());
    std::unique_ptr<Pass>& pass = passes_[count];
    if (pass == nullptr) pass = std::make_unique<Pass>(*this, count);
    std::ranges::copy(tokens.first(count), pass->input().begin());
    pass->run(size_);
    size_ += count;
    tokens = tokens.subspan(count);
    if (tokens.empty()) return pass->output();
  }
}

}  // namespace dragonn::layers

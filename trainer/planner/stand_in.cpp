// SPDX-License-Identifier: MIT
#include "trainer/planner/stand_in.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "layers/graph.h"
#include "trainer/cost_model/cost_model_measure.h"

namespace dragonn::trainer {
namespace {

constexpr std::size_t kDraws = std::size_t{1} << 18;
/// Half of the variance is common to all ranks.
constexpr float kShare = 0.70710678f;

/// Returns draws that all networks of the process read, each from other places.
std::span<const float> draws() {
  static const Buffer<float> values = profile_gradient(kDraws);
  return values.view().host();
}

/// Returns the place from which a tensor reads the draws.
std::size_t place_of(std::uint64_t pass, std::uint64_t tensor, std::uint64_t rank) {
  const std::uint64_t key[] = {pass, tensor, rank};
  return hash_bytes(std::as_bytes(std::span(key))) % kDraws;
}

/// Fills a tensor's gradient. The two places move on by turns of unlike length, so that no sum comes twice.
void fill_gradient(std::span<float> gradient, std::size_t common, std::size_t own) {
  const std::span<const float> values = draws();
  constexpr std::size_t kOwnDraws = kDraws - 3;
  own %= kOwnDraws;
  for (std::size_t done = 0; done < gradient.size();) {
    const std::size_t run = std::min({gradient.size() - done, kDraws - common, kOwnDraws - own});
    for (std::size_t i = 0; i < run; ++i) gradient[done + i] = kShare * (values[common + i] + values[own + i]);
    done += run;
    common = (common + run) % kDraws;
    own = (own + run) % kOwnDraws;
  }
}

/// A layer of the stand-in: one number for each sample, and the parameters of the layer for which it stands.
layers::Layer stand_in_layer(const std::string& kind, std::vector<layers::ParameterSpec> parameters, double flops,
                             std::uint64_t layer, int rank) {
  layers::Layer made{.kind = kind};
  made.output_shape = [](layers::Shapes inputs) { return inputs[0]; };
  made.parameters = [parameters = std::move(parameters)](layers::Shapes) { return parameters; };
  made.forward_flops = [flops](layers::Shapes) { return flops; };
  made.plan = [layer, rank](const layers::PlanContext&) {
    const auto forward = [](const layers::ForwardPass& pass) { std::ranges::fill(pass.output.host(), 0.0F); };
    const auto backward = [layer, rank, number = std::uint64_t{0}](const layers::BackwardPass& pass) mutable {
      ++number;
      for (std::size_t i = 0; i < pass.parameter_gradients.size(); ++i) {
        const std::uint64_t tensor = (layer << 8) + i;
        fill_gradient(pass.parameter_gradients[i].host(), place_of(number, tensor, 0),
                      place_of(number, tensor, static_cast<std::uint64_t>(rank) + 1));
      }
      for (const auto& gradient : pass.input_gradients)
        if (!gradient.empty()) std::ranges::fill(gradient.host(), 0.0F);
    };
    return layers::layer_plan(forward, backward);
  };
  return made;
}

/// Batches of zeros.
class StandInSource final : public data::BatchSource {
 public:
  explicit StandInSource(std::size_t samples) : samples_(samples) {}

  std::size_t steps_per_epoch() const override { return std::size_t{1} << 40; }
  data::Batch make_batch(const MemoryPlace& inputs) const override {
    data::Batch batch;
    batch.inputs = Buffer<float>(samples_, inputs);
    batch.labels.assign(samples_, 0);
    batch.sample_size = 1;
    batch.count = samples_;
    std::ranges::fill(batch.inputs.host(), 0.0F);
    return batch;
  }
  void fill(std::uint64_t /*epoch*/, std::uint64_t /*step*/, data::Batch& /*batch*/) override {}

 private:
  std::size_t samples_;
};

class StandInDataset final : public data::Dataset {
 public:
  explicit StandInDataset(std::size_t samples) : samples_(samples) {}

  std::size_t size() const override { return samples_; }
  Shape sample_shape() const override { return {1}; }
  int classes() const override { return 1; }
  std::unique_ptr<data::BatchSource> training(const data::BatchRules& /*rules*/) const override {
    return std::make_unique<StandInSource>(samples_);
  }
  std::unique_ptr<data::BatchSource> evaluation(std::size_t /*batch*/, int /*rank*/, int /*world*/) const override {
    return std::make_unique<StandInSource>(samples_);
  }

 private:
  std::size_t samples_;
};

}  // namespace

layers::Network stand_in_network(const layers::Network& network, int rank) {
  const layers::LayerGraph& real = network.graph();
  auto graph = std::make_unique<layers::LayerGraph>(Shape{1});
  std::vector<bool> has_parameter(real.parameters().size());  // where it first appears
  layers::NodeId last = layers::LayerGraph::input();
  for (layers::NodeId id = 1; id < real.nodes().size(); ++id) {
    const layers::Node& node = real.nodes()[id];
    std::vector<layers::ParameterSpec> parameters;
    for (const std::size_t index : node.parameters) {
      if (has_parameter[index]) continue;
      has_parameter[index] = true;
      layers::ParameterSpec spec = real.parameters()[index];
      spec.name = spec.name.substr(spec.name.rfind('.') + 1);
      spec.initializer = layers::Initializer::constant(0);
      spec.spans_features = false;
      spec.padding = 0;
      parameters.push_back(std::move(spec));
    }
    const double flops = node.layer->forward_flops(node.input_shapes);
    if (parameters.empty() && flops == 0) continue;
    last = graph->add(node.name, stand_in_layer(node.layer->kind, std::move(parameters), flops, id, rank), {last});
  }
  return {std::move(graph), /*label_smoothing=*/0};
}

data::DatasetSplits stand_in_data(std::int64_t micro_batches) {
  const auto samples = std::make_shared<StandInDataset>(static_cast<std::size_t>(micro_batches));
  return {samples, samples};
}

}  // namespace dragonn::trainer

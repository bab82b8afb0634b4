// SPDX-License-Identifier: MIT
#include "trainer/planner/screen.h"

#include <algorithm>

#include "trainer/config/exchange_config.h"
#include "trainer/cost_model/advice.h"
#include "trainer/run/plan.h"

namespace dragonn::trainer {
namespace {

/// Backward takes two thirds of forward and backward (Generation).
constexpr double kBackwardShare = 2.0 / 3;

/// Returns whether a worker sends to its neighbour in the ring of ranks only, so that one worker of a node at a time
/// uses its link.
bool is_ring(const RunSpec& config) {
  const CompressionConfig& compression = config.compression;
  if (compression.is_dense()) return config.comm.dense_algorithm == comm::DenseAlgorithm::kRing;
  return compression.collective.name == "allgather";
}

/// Returns the network as the slowest link sees it, of which each worker of a node that uses it at once has a share.
comm::NetworkModel share_of_link(const RunSpec& config, const comm::Nodes& nodes, bool has_levels) {
  comm::NetworkModel network = config.network.slowest_link().value();
  const bool shares = has_levels || !is_ring(config);
  if (!config.network.node_links(nodes.ranks()).workers.empty() && shares)
    network.bytes_per_second /= has_levels ? nodes.places() : nodes.most();
  return network;
}

}  // namespace

const CostCurve& Screen::curve_of(const SelectionQuestion& question) {
  const RunSpec& config = question.config;
  const CompressionConfig& compression = config.compression;
  const bool is_free = config.network.compute == comm::Compute::kZero;
  const CurveKey key =
      is_free || compression.is_dense()
          ? CurveKey{}
          : CurveKey{compression.quantizes() ? compression.quantizer.name : compression.sparsifier.name,
                     compression.memory.name, compression.density, config.comm.workers};
  const auto known = curves_.find(key);
  if (known != curves_.end()) return known->second;
  Profile profile;
  const bool is_measured = key != CurveKey{};
  if (is_measured) profile = measure_rows_briefly(question);
  CostCurve curve =
      is_measured ? trainer::curve_of(question, profile) : CostCurve({{.key = {}, .numel = 1, .coding_seconds = 0.0}});
  return curves_.emplace(key, std::move(curve)).first->second;
}

double Screen::seconds(const RunSpec& config) {
  const int workers = static_cast<int>(config.comm.workers);
  const comm::Nodes nodes = given_nodes(config, workers);
  const exchange::ExchangeRules rules = rules_on(config, nodes);
  const ParameterArena& arena = network_.arena();
  const std::vector<exchange::Bucket> buckets = exchange::make_buckets(arena, rules.buckets);
  const bool has_levels = rules.nodes.has_value();
  const double density = config.compression.density;
  const comm::NetworkModel link = share_of_link(config, nodes, has_levels);
  const double step_seconds = config.network.step_ms / 1e3;
  const UpdateTraits traits = config.update.traits();
  double exposed = 0;
  if (has_levels) {
    const exchange::ExchangePlan plan = exchange::plan_exchange(rules, arena, density, workers);
    const comm::NetworkModel inside = config.network.node_links(workers).inside.front();
    // Gradients come and sums go.
    exposed = 2 * inside.seconds(nodes.most() - 1, plan.inside_bytes) + plan.cost().seconds(link);
  } else {
    const bool overlaps = config.compression.overlap && overlap_obstacle(config, arena, rules).empty();
    const SelectionQuestion question{.config = config,
                                     .buckets = buckets,
                                     .densities = {density},
                                     .world_size = workers,
                                     .ready = ready_shares(layers_, buckets),
                                     .overlaps = overlaps,
                                     .arena = &arena,
                                     .layers = layers_};
    const std::vector<ExchangeStage> stages = own_stages(question, curve_of(question), density);
    exposed = exposed_seconds(stages, link, overlaps ? std::optional(kBackwardShare * step_seconds) : std::nullopt);
    if (traits.delays && overlaps)
      exposed = std::max(0.0, exposed_seconds(stages, link) - kBackwardShare * step_seconds);
  }
  const auto fragments = static_cast<double>(traits.fragments);
  const double hidden = fragments * static_cast<double>(traits.overlap_steps) * step_seconds;
  return config.network.slowest * step_seconds +
         std::max(0.0, exposed - hidden) / static_cast<double>(traits.steps_per_exchange);
}

}  // namespace dragonn::trainer

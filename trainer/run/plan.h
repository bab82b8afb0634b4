// SPDX-License-Identifier: MIT
/// RunPlan: the memory and traffic of a run, computed before it starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/nodes.h"
#include "exchange/exchange_plan.h"
#include "layers/network.h"
#include "trainer/config/config.h"
#include "trainer/cost_model/tensor_selection.h"
#include "trainer/run/device_choice.h"

namespace dragonn::trainer {

struct RunPlan {
  comm::Nodes nodes = {};
  exchange::ExchangeRules rules = {};  ///< of the config, for these nodes
  std::vector<layers::LayerSummary> layers;
  std::size_t parameters = 0;
  exchange::ExchangePlan exchange;
  ByteForecast bytes = {};  ///< of an exchange at the target density
  /// The other densities of the schedule, in their order, and the bytes that a worker sends in an exchange at each.
  std::vector<std::pair<double, double>> scheduled_bytes = {};
  comm::Prediction dense_cost = {};  ///< cost of an exchange without compression
  std::uint64_t steps_per_exchange = 1;
  UpdateTraits update = {};  ///< of the update scheme
  /// The bytes per worker by kind, in the order in which they are shown; host memory unless the run computes on a GPU.
  std::vector<std::pair<std::string, std::size_t>> memory;
  std::size_t buffer_bytes = 0;       ///< of the exchange, at the densest of the schedule's densities
  std::size_t most_buffer_bytes = 0;  ///< what these grow to if the counts are the highest that are forecast
  std::size_t host_bytes = 0;         ///< the part that a run on a GPU holds on the host: batches, and messages
  std::size_t saved_model_bytes = 0;  ///< host memory that rank 0 needs besides, while it saves the model
  std::size_t checkpoint_bytes = 0;   ///< one checkpoint, all ranks
  std::optional<TensorSelection> selection = {};
  std::string overlap_obstacle;  ///< why compression.overlap could do nothing; empty if it could

  std::size_t memory_total() const;
};

/// Returns "244 kB at density 0.8, 35 kB at 0.02" of a step, where one in `steps_per_exchange` exchanges; the first
/// four.
std::string describe_schedule(const RunPlan& plan, std::uint64_t steps_per_exchange);

/// Returns the forecast for a step, where one in `steps_per_exchange` exchanges.
ByteForecast per_step(ByteForecast of_exchange, std::uint64_t steps_per_exchange);

/// Returns the nodes that comm.workers_per_node makes of so many workers, or else those of a described network
/// (network.workers_per_node, network.nodes); without both they share one.
comm::Nodes given_nodes(const Config& config, int workers);
/// Collective. Returns those on a virtual cluster and with comm.workers_per_node, else the nodes that there are
/// (comm::find_nodes).
comm::Nodes find_nodes(const Config& config, comm::Communicator& communicator);

/// Returns why compression.overlap does nothing in a run with these rules, in words for the user; empty if it does.
std::string overlap_obstacle(const Config& config, const ParameterArena& arena, const exchange::ExchangeRules& rules);

/// Local. Plans a run. @param network made for `device`; it needs no memory yet.
RunPlan plan_run(const RunSpec& config, const layers::Network& network, const comm::Nodes& nodes,
                 const Device& device = {});

/// Local. Adds the cost model's decisions for the plan's buckets at the target density, and the advice. Does nothing if
/// the network or the profile is not given, and would have to be measured, or if the exchange has two levels. @throws
/// ConfigError, DataError (see given_profile).
void add_selection(RunPlan& plan, const RunSpec& config, const ParameterArena& arena, int world_size,
                   const Device& device = {});

/// Returns the plan as text, for --dry-run.
std::string describe(const RunPlan& plan, const Config& config, int world_size);

/// Collective. Checks that memory and disk suffice. @throws comm::CollectiveError if the workers of a machine, or of a
/// GPU, need more memory than it has left, or the checkpoints more disk than `folder`'s file system has; it says how
/// much is needed, how much is there and what to change.
void check_resources(comm::Communicator& communicator, const RunPlan& plan, const Config& config,
                     const std::filesystem::path& folder, const DeviceChoice& choice);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Tensor choice: decides once per run which tensors are worth sparsifying on this machine and network.
///
/// Rank 0 takes the times of the profile (given or measured) and the network (modelled, of the profile, or measured),
/// decides for every tensor and every density of the schedule, and sends the outcome to all ranks as the text that also
/// stands in profile.json and in the checkpoints: a resumed run reads it there and never measures again.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/nodes.h"
#include "core/parameter.h"
#include "exchange/buckets.h"
#include "layers/network.h"
#include "trainer/config/config.h"
#include "trainer/cost_model/cost_model.h"

namespace dragonn::trainer {

/// The decisions and their grounds. A "tensor" is a bucket that may be sparsified: with compression.bucket = "tensor"
/// one tensor.
struct TensorSelection {
  int ranks = 1;             ///< that exchange with each other; with two levels, nodes
  int workers_per_node = 1;  ///< that share out an exchange of two levels
  comm::NetworkModel network;
  std::string network_source = {};  ///< "modelled (1gbe)", "measured", ...
  std::vector<ProfileRow> rows = {};
  std::string profile_source = {};
  std::vector<std::string> tensors = {};
  std::vector<DensityCosts> densities = {};     ///< in the order of the schedule
  std::optional<double> backward_seconds = {};  ///< of a worker, if the profile or this run has measured it
  /// The advice for the last density, with the decisions that the run follows: all tensors are sparse unless it asks
  /// for costs.
  std::optional<StepAdvice> advice = {};

  /// Returns the costs at a density. @throws Error if the schedule never has this density.
  const DensityCosts& at(double density) const;
};

/// Returns whether a run asks for costs: to choose tensors by them, or to be advised because its network or profile is
/// given. With one worker there is nothing to exchange, and without compression nothing to choose.
bool wants_costs(const Config& config, int world_size);

/// Returns whether a run measures its network and its machine in a short time, to be advised (logging.advice): its
/// workers are processes, it compresses, and it does not ask for costs. Between GPUs NCCL's network is not measured.
bool measures_briefly(const Config& config, const comm::Communicator& communicator);

/// The input of a decision.
struct SelectionQuestion {
  const RunSpec& config;
  std::span<const exchange::Bucket> buckets;  ///< all buckets; those that are not sparse stay out
  std::vector<double> densities;              ///< below 1
  int world_size = 1;
  Device device = {};              ///< device of the gradients
  std::vector<double> ready = {};  ///< by bucket (ready_shares); empty: nothing is final before backward ends
  bool overlaps = false;           ///< the run exchanges during backward
  /// The parameters and layers, for the advice to consider other buckets; without them it considers none.
  const ParameterArena* arena = nullptr;
  std::vector<layers::LayerSummary> layers = {};
  bool native_is_tree = true;  ///< DenseAlgorithm::kNative is Communicator's own tree, whose cost is known
  /// The counts of sparse exchanges that the run has seen; before that those that are expected (forecast_counts).
  std::optional<comm::AssumedCounts> counts = {};
  bool counts_are_forecast = false;  ///< those are of the first steps, within which the run ends, and not seen
  int workers_per_node = 1;          ///< as in TensorSelection

  /// Asks for the exchange between nodes, if they have several workers: these share its work out among them, and their
  /// messages share the node's link. What is added up inside a node takes as long for every method, and is left out.
  void ask_between(const comm::Nodes& nodes);

  /// Returns whether compressed buckets are quantized, not sparsified. Then there are no densities.
  bool quantizes() const { return config.compression.quantizes(); }
};

/// Returns the source of a modelled network: "modelled (1gbe)", "modelled, the slowest link".
std::string modelled_source(const NetworkConfig& network);

/// Local. Returns the profile that the config names; nothing if it names none.
/// @throws ConfigError if the file is missing or lacks rows for some density (says how to measure them), DataError.
std::optional<Profile> given_profile(const SelectionQuestion& question);

/// Local. Measures the times of two sizes of up to 2^20 elements at the last density, in four runs each.
Profile measure_rows_briefly(const SelectionQuestion& question);
/// Returns the times at the last density. @throws ConfigError if the profile has no rows of it.
CostCurve curve_of(const SelectionQuestion& question, const Profile& profile);

/// Local. Decides from given data alone. @param profile has the rows of all densities.
TensorSelection decide(const SelectionQuestion& question, const Profile& profile, const comm::NetworkModel& network);

/// Local. Returns the advice for the counts of `question`, on the grounds and with the decisions of `selection`. The
/// selection has an advice.
StepAdvice advise_again(const SelectionQuestion& question, const TensorSelection& selection);

/// Collective. Measures the data that is not given, and decides on rank 0; the same on every rank. No wait for a rank
/// is longer than the measurement of one size. @throws comm::CollectiveError as given_profile does, CommError.
TensorSelection choose_tensors(comm::Communicator& communicator, const SelectionQuestion& question);

/// Collective. Decides as choose_tensors, from brief measurements alone (comm::measure_network_briefly, and four runs
/// of two sizes of up to 2^20 elements on rank 0): good enough for an advice, not for a choice. Knows the last density
/// only; empty if there is none. @throws CommError.
std::optional<TensorSelection> estimate_costs(comm::Communicator& communicator, SelectionQuestion question);

/// Returns the decisions by bucket, for GradientExchange. @throws DataError if they were made for other buckets.
std::vector<exchange::BucketChoice> bucket_choices(const TensorSelection& selection,
                                                   std::span<const exchange::Bucket> buckets);

/// Returns the content of profile.json (docs/formats.md), and below parses it to the same numbers. @throws DataError
/// naming `name` and the key.
std::string to_json(const TensorSelection& selection);
TensorSelection parse_selection(const std::string& text, const std::string& name);

/// Returns whether the run leaves tensors dense that gain nothing.
bool selects_by_cost(const Config& config);

/// Returns the grounds as aligned lines: the network, the profile, one line per tensor with its times and the decision.
std::vector<std::string> describe(const TensorSelection& selection, double density);

/// Returns the advice in one line: the time that exchanges add to a step, dense and sparse, the bandwidth at which the
/// faster form changes, and a better setting. The selection has an advice.
std::string describe_advice(const TensorSelection& selection);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Run: the content of a training run's folder, as far as reports need it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dragonn::report {

/// The numbers that lines of steps and of evaluations have. Numbers that a line lacks, or that were not finite, are
/// absent.
struct RunPoint {
  double step = 0;
  double epoch = 0;
  double time = 0;                   ///< seconds since the start
  std::optional<double> time_ideal;  ///< seconds since the start, if the network took no time
  double bytes = 0;  ///< sent by a worker since the start, mean over workers; of evaluations interpolated
  std::optional<double> loss;
};

/// A step line of metrics.jsonl.
struct StepPoint : RunPoint {
  double bytes_of_step = 0;  ///< sent by a worker in this step, mean over workers
  std::optional<double> density_target, density_local, density_global;
  std::optional<double> selected_over_k;  ///< entries selected by a worker, mean over workers, over the requested k
  std::optional<double> threshold;        ///< of magnitudes
  std::optional<double> residual_norm;    ///< norm of a worker's residual, mean over workers
  std::optional<double> messages;         ///< sent by a worker in this step, mean over workers
  std::optional<double> padding_overhead, imbalance;  ///< 1 means none
  std::optional<double> lost_mass;
  std::optional<double> bits_per_entry;   ///< of lists in messages
  std::optional<double> drift;            ///< of the workers' parameters from the common ones
  std::optional<double> utilization;      ///< share of the time so far that rank 0 computed
  std::map<std::string, double> seconds;  ///< of this step, by verb
};

/// The numbers that step lines have and evaluations do not, with the keys of metrics.jsonl and the columns of tables.
inline constexpr std::pair<const char*, std::optional<double> StepPoint::*> kStepDetails[] = {
    {"density_target", &StepPoint::density_target},
    {"density_local", &StepPoint::density_local},
    {"density_global", &StepPoint::density_global},
    {"selected_over_k", &StepPoint::selected_over_k},
    {"threshold", &StepPoint::threshold},
    {"residual_norm", &StepPoint::residual_norm},
    {"messages", &StepPoint::messages},
    {"padding_overhead", &StepPoint::padding_overhead},
    {"imbalance", &StepPoint::imbalance},
    {"lost_mass", &StepPoint::lost_mass}};

/// An evaluation line.
struct EvalPoint : RunPoint {
  std::string split;
  std::map<std::string, double> metrics;  ///< "accuracy", "perplexity", ...
};

/// The modelled network of a virtual cluster, as far as the run's files name it.
struct Network {
  std::optional<double> gbps, latency_us;
  std::string compute;  ///< "measured", "zero"
  std::string preset;   ///< "" without one

  bool operator==(const Network&) const = default;
};

/// The content of summary.json; absent numbers were not in it.
struct RunSummary {
  std::optional<double> steps, seconds_total, throughput, bytes_sent_total, density_mean, world_size;
  std::string backend;
  std::string time;  ///< kind of the run's times: "wall", "virtual"
  std::optional<Network> network;
};

struct Run {
  std::string name;  ///< the folder's name
  std::filesystem::path path;
  std::map<std::string, std::string> config;  ///< "compression.method" -> "dense", strings without quotes
  std::vector<StepPoint> steps;               ///< ascending
  std::vector<EvalPoint> evals;               ///< ascending, of one split: "test" if there is one
  std::optional<RunSummary> summary;          ///< absent while a run lasts, or after it was killed
  std::vector<std::string> warnings;          ///< the run's own, and oddities of the folder

  /// Returns the config's value of a key, "" if it has none.
  std::string setting(const std::string& key) const;
  bool is_dense() const;
  /// Returns whether times are those of a modelled network, by summary.json or else by the metrics and the config.
  bool is_virtual() const;
  /// Returns the network of a virtual run, from summary.json or else from the config. Nothing if times are wall times.
  std::optional<Network> network() const;
};

/// Reads config.toml (if there), metrics.jsonl and summary.json (if there). A last line without a line end is an
/// interrupted write: it is left out, with a warning.
/// @throws ConfigError without a metrics.jsonl, DataError naming file and line for broken JSON.
Run load_run(const std::filesystem::path& folder);

/// The magnitude that a share of the entries of a gradient reaches, by descending share, and each fit's estimate of it.
struct Fit {
  std::string name;  ///< the gradient's file, without its folder
  std::vector<double> share, magnitude, exponential, gamma, pareto;
};

/// Reads the fits of all inputs in a file of `dragonn-bench fit --json`, in its order.
/// @throws ConfigError if the file is missing, DataError naming it if it is not such a file.
std::vector<Fit> load_fits(const std::filesystem::path& file);

}  // namespace dragonn::report

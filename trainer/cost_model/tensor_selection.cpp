// SPDX-License-Identifier: MIT
#include "trainer/cost_model/tensor_selection.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include "comm/agreement.h"
#include "comm/network_model.h"
#include "core/file.h"
#include "core/log.h"
#include "trainer/cost_model/advice.h"
#include "trainer/cost_model/cost_model_measure.h"

namespace dragonn::trainer {
namespace {

constexpr std::size_t kLargestMeasured = std::size_t{1} << 24;       // elements
constexpr std::size_t kLargestMeasuredLists = std::size_t{1} << 28;  // bytes, of all ranks
constexpr std::size_t kSizeFactor = 4;
constexpr std::size_t kSmallestBrief = 1 << 10, kLargestBrief = 1 << 20;  // elements
constexpr std::size_t kLargestBriefLists = std::size_t{1} << 24;          // bytes, of all ranks
constexpr ProfileRuns kBriefRuns{.ahead = 1, .counted = 3};

ProfiledExchange profiled_exchange(const SelectionQuestion& question, double density) {
  const exchange::ExchangeRules& rules = question.config.rules;
  const Settings& collective = rules.collective.settings;
  ProfiledExchange exchange{.sparsifier = rules.sparsifier,
                            .quantizer = rules.quantizer,
                            .memory = rules.memory,
                            .decode_dense = collective.contains("decode") && collective.text("decode") == "dense",
                            .density = density,
                            .ranks = question.world_size,
                            .momentum = rules.momentum,
                            .nesterov = rules.nesterov,
                            .device = question.device};
  if (!rules.coding.is_raw()) exchange.coding = rules.coding;
  return exchange;
}

/// Returns the densities whose times are of use: of a code of whole buckets, 1.
std::vector<double> profiled_densities(const SelectionQuestion& question) {
  return question.quantizes() ? std::vector<double>{1} : question.densities;
}

ProfileKey profile_key(const SelectionQuestion& question, double density) {
  return profiled_exchange(question, density).key(static_cast<int>(question.config.comm.threads_per_worker));
}

[[noreturn]] void refuse_profile(const SelectionQuestion& question, const Profile& profile,
                                 const std::vector<double>& missing) {
  const ProfileKey key = profile_key(question, missing.front());
  std::vector<std::string> contents;  // "topk at density 0.01 for 4 ranks on cpu", each once
  for (const ProfileRow& row : profile.rows) {
    const ProfileKey& has = row.key;
    std::string text =
        fmt::format("{} at density {} for {} ranks on {}", has.sparsifier, has.density, has.ranks, has.device);
    if (!std::ranges::count(contents, text)) contents.push_back(std::move(text));
  }
  throw ConfigError(fmt::format(
      "compression.profile = \"{0}\": no rows of sparsifier '{1}', density {2}, {3} ranks, device {6}; it has {4}; "
      "measure them "
      "with: dragonn-bench profile --sparsifier {1} --memory {5} --density {2} --ranks {3} --device {6} --json FILE",
      question.config.compression.profile, key.sparsifier, fmt::join(missing, ","), key.ranks,
      profile.rows.empty() ? "none" : fmt::format("{}", fmt::join(contents, ", ")), key.memory, key.device));
}

/// Returns the sizes of the smallest and the largest bucket that may be sparsified.
std::pair<std::size_t, std::size_t> smallest_and_largest(std::span<const exchange::Bucket> buckets) {
  std::size_t smallest = kLargestMeasured, largest = 1;
  for (const exchange::Bucket& bucket : buckets) {
    if (!bucket.sparse) continue;
    smallest = std::min(smallest, bucket.size);
    largest = std::max(largest, bucket.size);
  }
  return {smallest, largest};
}

/// Returns the largest size whose lists, of all ranks, have this many bytes.
std::size_t largest_of_lists(const SelectionQuestion& question, double density, std::size_t bytes) {
  const double list_bytes = density * static_cast<double>(SparseVector::kEntryBytes) * question.world_size;
  return static_cast<std::size_t>(static_cast<double>(bytes) / list_bytes);
}

/// Collective. Measures on rank 0; the other ranks wait for it after every size.
Profile measure_rows(comm::Communicator& communicator, const SelectionQuestion& question) {
  Profile profile;
  const auto [smallest, largest] = smallest_and_largest(question.buckets);
  Buffer<float> gradient;
  for (const double density : profiled_densities(question)) {
    const ProfiledExchange exchange = profiled_exchange(question, density);
    const std::size_t limit = largest_of_lists(question, density, kLargestMeasuredLists);
    for (const std::size_t numel : profile_sizes(smallest, largest, kSizeFactor, std::min(kLargestMeasured, limit))) {
      comm::all_ranks_or_none(communicator, [&] {
        if (communicator.rank() != 0) return;
        if (gradient.size() < numel) gradient = profile_gradient(numel, question.device);
        const View<const float> values = gradient.view();
        profile.rows.push_back(measure_profile(exchange, values.subview(0, numel)));
      });
    }
  }
  return profile;
}

struct SourcedNetwork {
  comm::NetworkModel network;
  std::string source;
};

/// Collective. Returns the network. @param given rank 0's profile; empty on the others.
SourcedNetwork network_of(comm::Communicator& communicator, const Config& config, const std::optional<Profile>& given) {
  if (const auto slowest = config.network.slowest_link()) return {*slowest, modelled_source(config.network)};
  bool of_profile = given && given->network;
  communicator.broadcast_value(0, of_profile);
  if (!of_profile) return {comm::measure_network(communicator), "measured"};
  return {given ? *given->network : comm::NetworkModel{}, fmt::format("of {}", config.compression.profile)};
}

/// Warns if the profile, which is used all the same, was measured with other parts.
void warn_of_other_parts(const SelectionQuestion& question, const TensorSelection& selection) {
  for (const ProfileRow& row : selection.rows) {
    const ProfileKey run = profile_key(question, row.key.density);
    if (row.key.memory == run.memory && row.key.decode == run.decode && row.key.threads == run.threads) continue;
    log::warning(0,
                 "compression.profile = \"{}\" was measured with memory {}, {} decoding, {} threads; this run has {}, "
                 "{}, {}",
                 question.config.compression.profile, row.key.memory, row.key.decode, row.key.threads, run.memory,
                 run.decode, run.threads);
    return;
  }
}

/// Collective. Decides on rank 0 and returns the outcome on every rank. @param profile rank 0's.
TensorSelection decide_for_all(comm::Communicator& communicator, const SelectionQuestion& question,
                               const Profile& profile, const SourcedNetwork& network,
                               const std::string& profile_source) {
  std::string text;
  comm::all_ranks_or_none(communicator, [&] {
    if (communicator.rank() != 0) return;
    TensorSelection selection = decide(question, profile, network.network);
    selection.network_source = network.source;
    selection.profile_source = profile_source;
    if (profile_source == question.config.compression.profile) warn_of_other_parts(question, selection);
    text = to_json(selection);
  });
  communicator.broadcast_text(0, text);
  return parse_selection(text, "the decisions of rank 0");
}

}  // namespace

void SelectionQuestion::ask_between(const comm::Nodes& nodes) {
  if (nodes.most() == 1) return;
  world_size = nodes.count();
  workers_per_node = nodes.places();
  native_is_tree = true;  // of comm::Subgroup
}

const DensityCosts& TensorSelection::at(double density) const {
  const auto found = std::ranges::find(densities, density, &DensityCosts::density);
  DRAGONN_CHECK(found != densities.end(), "no costs for density {}", density);
  return *found;
}

bool selects_by_cost(const Config& config) {
  return config.compression.select_tensors.is(SelectTensors::kCostModel) && config.compression.selects();
}

bool wants_costs(const Config& config, int world_size) {
  const CompressionConfig& compression = config.compression;
  if (compression.is_dense() || world_size == 1) return false;
  return selects_by_cost(config) || !compression.profile.empty() ||
         (config.network.modelled() && config.logging.advice);
}

bool measures_briefly(const Config& config, const comm::Communicator& communicator) {
  if (!config.logging.advice || config.compression.is_dense() || wants_costs(config, communicator.size())) return false;
  return communicator.size() > 1 && communicator.backend() != "local" && communicator.device_transport() == nullptr;
}

std::string modelled_source(const NetworkConfig& network) {
  if (network.links || !network.up_gbps.empty() || !network.down_gbps.empty()) return "modelled, the slowest link";
  return network.preset == "none" ? "modelled" : fmt::format("modelled ({})", network.preset);
}

std::optional<Profile> given_profile(const SelectionQuestion& question) {
  const std::string& path = question.config.compression.profile;
  if (path.empty()) return std::nullopt;
  Profile profile = parse_profile(read_text_file(path), path);
  std::vector<double> missing;
  for (const double density : profiled_densities(question)) {
    std::vector<ProfileRow> rows = rows_of(profile, profile_key(question, density));
    if (rows.empty()) {
      missing.push_back(density);
      continue;
    }
    try {
      const CostCurve curve(std::move(rows));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("compression.profile = \"{}\": {}", path, error.what()));
    }
  }
  if (!missing.empty()) refuse_profile(question, profile, missing);
  return profile;
}

Profile measure_rows_briefly(const SelectionQuestion& question) {
  Profile profile;
  const double density = profiled_densities(question).back();
  const std::size_t limit =
      std::max(2 * kSmallestBrief, std::min(kLargestBrief, largest_of_lists(question, density, kLargestBriefLists)));
  const auto [smallest, largest] = smallest_and_largest(question.buckets);
  const std::size_t low = std::clamp(smallest, kSmallestBrief, limit / 2);
  const std::size_t high = std::clamp(largest, 2 * low, limit);
  const Buffer<float> gradient = profile_gradient(high, question.device);
  for (const std::size_t numel : {low, high}) {
    const View<const float> values = gradient.view().subview(0, numel);
    profile.rows.push_back(measure_profile(profiled_exchange(question, density), values, kBriefRuns));
  }
  return profile;
}

CostCurve curve_of(const SelectionQuestion& question, const Profile& profile) {
  return CostCurve(rows_of(profile, profile_key(question, profiled_densities(question).back())));
}

TensorSelection decide(const SelectionQuestion& question, const Profile& profile, const comm::NetworkModel& network) {
  const CostModel model{network, question.config.rules, question.world_size, question.counts};
  TensorSelection selection{.ranks = question.world_size,
                            .workers_per_node = question.workers_per_node,
                            .network = network,
                            .backward_seconds = profile.backward_seconds};
  for (const exchange::Bucket& bucket : question.buckets) {
    if (bucket.sparse) selection.tensors.push_back(bucket.name);
  }
  for (const double density : profiled_densities(question)) {
    std::vector<ProfileRow> rows = rows_of(profile, profile_key(question, density));
    selection.rows.insert(selection.rows.end(), rows.begin(), rows.end());
    const CostCurve curve(std::move(rows));
    DensityCosts costs{.density = density};
    if (!question.quantizes()) costs = model.costs(question.buckets, curve, density);
    DensityCosts followed = costs;
    if (!selects_by_cost(question.config)) {
      for (TensorCost& tensor : followed.tensors) tensor.is_sparse = true;
    }
    selection.advice = advise(question, network, followed, curve, profile.backward_seconds);
    if (!question.quantizes()) selection.densities.push_back(std::move(costs));
  }
  return selection;
}

StepAdvice advise_again(const SelectionQuestion& question, const TensorSelection& selection) {
  const double density = question.densities.back();
  const CostModel model{selection.network, question.config.rules, question.world_size, question.counts};
  Profile profile;
  profile.rows = selection.rows;
  const CostCurve curve = curve_of(question, profile);
  DensityCosts costs = model.costs(question.buckets, curve, density);
  const DensityCosts& decided = selection.at(density);
  for (std::size_t i = 0; i < costs.tensors.size(); ++i) {
    costs.tensors[i].is_sparse = !selects_by_cost(question.config) || decided.tensors[i].is_sparse;
  }
  return advise(question, selection.network, costs, curve, selection.backward_seconds);
}

TensorSelection choose_tensors(comm::Communicator& communicator, const SelectionQuestion& question) {
  const std::string& path = question.config.compression.profile;
  std::optional<Profile> given;
  comm::all_ranks_or_none(communicator, [&] {
    if (communicator.rank() == 0) given = given_profile(question);
  });
  const SourcedNetwork network = network_of(communicator, question.config, given);
  const Profile profile = path.empty() ? measure_rows(communicator, question) : given.value_or(Profile{});
  return decide_for_all(communicator, question, profile, network, path.empty() ? "measured" : path);
}

std::optional<TensorSelection> estimate_costs(comm::Communicator& communicator, SelectionQuestion question) {
  if (profiled_densities(question).empty()) return std::nullopt;
  if (!question.quantizes()) question.densities = {question.densities.back()};
  const SourcedNetwork network{comm::measure_network_briefly(communicator), "measured briefly"};
  Profile profile;
  comm::all_ranks_or_none(communicator, [&] {
    if (communicator.rank() == 0) profile = measure_rows_briefly(question);
  });
  return decide_for_all(communicator, question, profile, network, "measured briefly");
}

std::vector<exchange::BucketChoice> bucket_choices(const TensorSelection& selection,
                                                   std::span<const exchange::Bucket> buckets) {
  std::vector<std::string> names;
  for (const exchange::Bucket& bucket : buckets) {
    if (bucket.sparse) names.push_back(bucket.name);
  }
  if (names != selection.tensors) {
    throw DataError(
        fmt::format("tensors were selected among {}, and this run has {}: the model or compression.bucket "
                    "differs",
                    fmt::join(selection.tensors, ", "), fmt::join(names, ", ")));
  }
  std::vector<exchange::BucketChoice> choices;
  for (const DensityCosts& costs : selection.densities) {
    exchange::BucketChoice& choice = choices.emplace_back(exchange::BucketChoice{costs.density, {}});
    std::size_t tensor = 0;
    for (const exchange::Bucket& bucket : buckets)
      choice.is_sparse.push_back(bucket.sparse && costs.tensors[tensor++].is_sparse);
  }
  return choices;
}

}  // namespace dragonn::trainer

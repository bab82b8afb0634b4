// SPDX-License-Identifier: MIT
#include "trainer/cost_model/cost_model.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::trainer {
namespace {

/// Returns the share of all operations that backward has done when it has passed the layer of this tensor.
double share_behind(std::span<const layers::LayerSummary> layers, const std::string& tensor) {
  double all = 0, behind = 0;
  bool found = false;
  for (const layers::LayerSummary& layer : layers) {
    found = found || tensor.starts_with(layer.name + ".");
    all += layer.forward_flops;
    if (found) behind += layer.forward_flops;
  }
  return found && all > 0 ? behind / all : 1;
}

/// Drops the rows without the property, unless no row has it.
template <class Property>
void prefer(std::vector<ProfileRow>& rows, Property property) {
  if (std::ranges::any_of(rows, property)) std::erase_if(rows, [&](const ProfileRow& row) { return !property(row); });
}

enum class Choice { kDense, kSparse, kEachItsOwn };

bool is_sparse(const TensorCost& tensor, Choice choice) {
  return choice == Choice::kEachItsOwn ? tensor.sparsified_seconds() < tensor.full_seconds : choice == Choice::kSparse;
}

/// Returns the time of a group whose tensors take the form of `choice`.
double seconds(std::span<const TensorCost> tensors, std::size_t group, const GroupCost& latencies, Choice choice) {
  double sum = 0;
  bool any_sparse = false, any_dense = latencies.always_dense;
  for (const TensorCost& tensor : tensors) {
    if (tensor.group != group) continue;
    const bool sparse = is_sparse(tensor, choice);
    sum += sparse ? tensor.sparsified_seconds() : tensor.full_seconds;
    any_sparse = any_sparse || sparse;
    any_dense = any_dense || !sparse;
  }
  return sum + (any_sparse ? latencies.sparse_seconds : 0) + (any_dense ? latencies.full_seconds : 0);
}

}  // namespace

double exposed_seconds(std::span<const ExchangeStage> stages, const comm::NetworkModel& network,
                       std::optional<double> backward_seconds) {
  const double backward = backward_seconds.value_or(0);
  double now = 0;
  for (const ExchangeStage& stage : stages) {
    now = std::max(now, stage.ready * backward) + stage.local_seconds + stage.messages.seconds(network);
  }
  return std::max(0.0, now - backward);
}

std::vector<double> ready_shares(std::span<const layers::LayerSummary> layers,
                                 std::span<const exchange::Bucket> buckets) {
  std::vector<double> shares;
  double latest = 0;
  for (const exchange::Bucket& bucket : buckets) {
    const std::size_t dots = bucket.name.rfind("..");  // "fc.weight..conv1.weight": the last tensor counts
    const std::string last = dots == std::string::npos ? bucket.name : bucket.name.substr(dots + 2);
    latest = std::max(latest, share_behind(layers, last));
    shares.push_back(latest);
  }
  return shares;
}

std::string overlap_obstacle(const Config& config, const ParameterArena& arena,
                             std::span<const exchange::Bucket> buckets) {
  const TrainConfig& train = config.train;
  if (!config.update.scheme.entry().overlaps)
    return fmt::format("update.scheme = \"{}\" exchanges nothing during backward", config.update.scheme.name);
  if (config.update.traits().delays) return {};  // nothing waits for this step's gradient
  // Global clipping is of the exchanged sums: it comes after all buckets in any case.
  if (train.clip == Clip::kLocal || train.clip == Clip::kLocalSqrtWorkers) {
    return fmt::format("train.clip = \"{}\" scales every bucket by the norm of the whole gradient",
                       name_of(train.clip));
  }
  if (train.non_finite == NonFinite::kSkip)
    return "train.non_finite = \"skip\" checks the whole gradient before any of it is sent";
  // Matrices lie first in the arena, last layer first, and buckets are exchanged in its order.
  if (!buckets.empty() && buckets.front().size < arena.matrix_size()) return {};
  return fmt::format(
      "the first bucket ({}) reaches to the first layer, which backward finishes last: smaller buckets "
      "(compression.bucket) can overlap",
      buckets.empty() ? "none" : buckets.front().name);
}

std::vector<ProfileRow> rows_of(const Profile& profile, const ProfileKey& key) {
  constexpr double kTolerance = 1e-9;  // of densities, for printing and the order of computing
  std::vector<ProfileRow> rows;
  std::ranges::copy_if(profile.rows, std::back_inserter(rows), [&](const ProfileRow& row) {
    const double a = row.key.density, b = key.density;
    return row.key.device == key.device && row.key.sparsifier == key.sparsifier && row.key.ranks == key.ranks &&
           std::abs(a - b) <= kTolerance * std::max(a, b);
  });
  prefer(rows, [&](const ProfileRow& row) { return row.key.memory == key.memory; });
  prefer(rows, [&](const ProfileRow& row) { return row.key.decode == key.decode; });
  prefer(rows, [&](const ProfileRow& row) { return row.key.threads == key.threads; });
  return rows;
}

CostCurve::CostCurve(std::vector<ProfileRow> rows) : rows_(std::move(rows)) {
  std::ranges::sort(rows_, {}, &ProfileRow::numel);
  if (rows_.empty()) throw ConfigError("a profile without rows: expected one row or more");
  const auto twice = std::ranges::adjacent_find(rows_, {}, &ProfileRow::numel);
  if (twice == rows_.end()) return;
  throw ConfigError(
      fmt::format("a profile with two rows of sparsifier '{}', density {}, {} ranks and {} elements: "
                  "expected one of each size",
                  twice->key.sparsifier, twice->key.density, twice->key.ranks, twice->numel));
}

bool CostCurve::knows_coding() const {
  return std::ranges::all_of(rows_, [](const ProfileRow& row) { return row.coding_seconds.has_value(); });
}

double CostCurve::at(std::size_t numel, double (*seconds)(const ProfileRow& row)) const {
  const double size = static_cast<double>(numel);
  if (rows_.size() == 1) return seconds(rows_[0]) * size / static_cast<double>(rows_[0].numel);
  // Takes the pair of rows around the size, or at the end that it lies beyond.
  const auto above = std::ranges::lower_bound(rows_.begin() + 1, rows_.end() - 1, numel, {}, &ProfileRow::numel);
  const ProfileRow &low = *(above - 1), &high = *above;
  const double low_size = static_cast<double>(low.numel), high_size = static_cast<double>(high.numel);
  const bool between = numel >= low.numel && numel <= high.numel;
  const double share =
      between ? std::log(size / low_size) / std::log(high_size / low_size) : (size - low_size) / (high_size - low_size);
  return std::max(0.0, seconds(low) + share * (seconds(high) - seconds(low)));
}

DensityCosts CostModel::costs(std::span<const exchange::Bucket> buckets, const CostCurve& curve, double density) const {
  using exchange::ExchangeForm;
  const auto chain = [&](const exchange::Bucket& bucket, ExchangeForm form) {
    return exchange::predict_bucket(rules, bucket, form, density, world_size, counts).chain();
  };
  const auto bytes_seconds = [&](const exchange::Bucket& bucket, ExchangeForm form) {
    return network.seconds(0, chain(bucket, form).bytes);
  };
  const auto add_latencies = [&](double& seconds, const exchange::Bucket& bucket, ExchangeForm form) {
    seconds = std::max(seconds, network.seconds(chain(bucket, form).messages, 0));
  };
  DensityCosts costs{.density = density};
  const std::vector<std::size_t> groups = exchange::exchange_groups(rules, buckets);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::size_t numel = buckets[i].size;
    if (i == 0 || groups[i] != groups[i - 1]) costs.groups.emplace_back();
    GroupCost& group = costs.groups.back();
    add_latencies(group.full_seconds, buckets[i], ExchangeForm::kDense);
    if (!buckets[i].sparse) {
      group.always_dense = true;
      continue;
    }
    add_latencies(group.sparse_seconds, buckets[i], ExchangeForm::kSparse);
    costs.tensors.push_back(
        {.numel = numel,
         .full_seconds = curve.dense_seconds(numel) + bytes_seconds(buckets[i], ExchangeForm::kDense),
         .encode_seconds = curve.encode_seconds(numel) + (rules.coding.is_raw() ? 0 : curve.coding_seconds(numel)),
         .decode_seconds = curve.decode_seconds(numel),
         .sparse_seconds = bytes_seconds(buckets[i], ExchangeForm::kSparse),
         .group = costs.groups.size() - 1});
  }
  choose_sparse(costs.tensors, costs.groups);
  return costs;
}

void choose_sparse(std::span<TensorCost> tensors, std::span<const GroupCost> groups) {
  for (std::size_t group = 0; group < groups.size(); ++group) {
    // The order makes a tie dense.
    const auto of = [&](Choice choice) { return seconds(tensors, group, groups[group], choice); };
    const Choice best = std::ranges::min({Choice::kDense, Choice::kEachItsOwn, Choice::kSparse}, {}, of);
    for (TensorCost& tensor : tensors) {
      if (tensor.group == group) tensor.is_sparse = is_sparse(tensor, best);
    }
  }
}

}  // namespace dragonn::trainer

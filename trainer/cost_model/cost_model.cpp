// SPDX-License-Identifier: MIT
#include "trainer/cost_model/cost_model.h"

#include <algorithm>

namespace dragonn::trainer {
namespace {

enum class Choice { kDense, kSparse, kEachItsOwn };

bool is_cheaper_sparse(const TensorCost& tensor) {
  return tensor.sparsified_seconds() < tensor.full_seconds;
}

bool is_sparse(const TensorCost& tensor, Choice choice) {
  return choice == Choice::kEachItsOwn ? is_cheaper_sparse(tensor) : choice == Choice::kSparse;
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

comm::Chain CostModel::chain(std::size_t numel, exchange::ExchangeForm form, double density) const {
  return exchange::predict_bucket(rules_, numel, form, density, world_size_, counts_).chain();
}

TensorCost CostModel::cost(const CostCurve& curve, std::size_t numel, double density) const {
  const auto bytes_seconds = [&](exchange::ExchangeForm form, double of_density) {
    return network_.seconds(0, chain(numel, form, of_density).bytes);
  };
  return {.numel = numel,
          .full_seconds = curve.dense_seconds(numel) + bytes_seconds(exchange::ExchangeForm::kDense, 1),
          .encode_seconds = curve.encode_seconds(numel) + (rules_.coding.is_raw() ? 0 : curve.coding_seconds(numel)),
          .decode_seconds = curve.decode_seconds(numel),
          .sparse_seconds = bytes_seconds(exchange::ExchangeForm::kSparse, density)};
}

void CostModel::add_to(GroupCost& group, std::size_t numel, exchange::ExchangeForm form, double density) const {
  const auto latencies = [&](exchange::ExchangeForm of_form) {
    return network_.seconds(chain(numel, of_form, density).messages, 0);
  };
  group.full_seconds = std::max(group.full_seconds, latencies(exchange::ExchangeForm::kDense));
  if (form == exchange::ExchangeForm::kDense) {
    group.always_dense = true;
  } else {
    group.sparse_seconds = std::max(group.sparse_seconds, latencies(form));
  }
}

DensityCosts CostModel::costs(std::span<const exchange::Bucket> buckets, const CostCurve& curve, double density) const {
  DensityCosts costs{.density = density};
  const std::vector<std::size_t> groups = exchange::exchange_groups(rules_, buckets);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const exchange::Bucket& bucket = buckets[i];
    if (i == 0 || groups[i] != groups[i - 1]) costs.groups.emplace_back();
    add_to(costs.groups.back(), bucket.size,
           bucket.sparse ? exchange::ExchangeForm::kSparse : exchange::ExchangeForm::kDense, density);
    if (!bucket.sparse) continue;
    costs.tensors.push_back(cost(curve, bucket.size, density));
    costs.tensors.back().group = costs.groups.size() - 1;
  }
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

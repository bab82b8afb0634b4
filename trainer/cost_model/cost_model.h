// SPDX-License-Identifier: MIT
/// CostModel: decides whether sparsifying a tensor saves time on a network (DRAGONN section 4.1, docs/algorithms.md
/// 4.1).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "comm/network_model.h"
#include "exchange/exchange_plan.h"
#include "trainer/cost_model/cost_model_profile.h"

namespace dragonn::trainer {

/// The expected seconds of a tensor in one exchange, in both forms. Latencies are its group's.
struct TensorCost {
  std::size_t numel = 0;
  double full_seconds = 0;    ///< T_full: its bytes in a dense allreduce, and adding them up
  double encode_seconds = 0;  ///< T_enc
  double decode_seconds = 0;  ///< T_dec
  double sparse_seconds = 0;  ///< T_spr: its bytes in a sparse exchange, headers included
  std::size_t group = 0;      ///< index of its GroupCost
  bool is_sparse = false;     ///< the decision (choose_sparse)

  double sparsified_seconds() const { return encode_seconds + decode_seconds + sparse_seconds; }
};

/// The latencies that the tensors of a group pay together, because they are sent in the same messages.
struct GroupCost {
  double full_seconds = 0;    ///< of its dense exchange
  double sparse_seconds = 0;  ///< of its sparse exchange, headers included
  bool always_dense = false;  ///< it also holds buckets that are never sparsified: its dense exchange is made anyway
};

/// The costs of all tensors at one density.
struct DensityCosts {
  double density = 1;
  std::vector<TensorCost> tensors = {};
  std::vector<GroupCost> groups = {};
};

/// Predicts the times of exchanges. All times are of one rank.
class CostModel {
 public:
  /// @param counts of sparse exchanges; by default those that are expected (predict_bucket).
  CostModel(const comm::NetworkModel& network, const exchange::ExchangeRules& rules, int world_size,
            const std::optional<comm::AssumedCounts>& counts = {})
      : network_(network), rules_(rules), world_size_(world_size), counts_(counts) {}

  const comm::NetworkModel& network() const { return network_; }
  /// Returns the cost of a tensor. @param curve times of the sparsifier at this density.
  TensorCost cost(const CostCurve& curve, std::size_t numel, double density) const;
  /// Adds a bucket of the group. @param density of a bucket that may be sparsified; else 1.
  void add_to(GroupCost& group, std::size_t numel, exchange::ExchangeForm form, double density) const;
  /// Returns the costs of those buckets that may be sparsified, undecided.
  DensityCosts costs(std::span<const exchange::Bucket> buckets, const CostCurve& curve, double density) const;

 private:
  comm::Chain chain(std::size_t numel, exchange::ExchangeForm form, double density) const;

  comm::NetworkModel network_;
  const exchange::ExchangeRules& rules_;
  int world_size_;
  std::optional<comm::AssumedCounts> counts_;
};

/// Decides for every tensor so that its group takes the least time: every tensor takes its cheaper form, unless all in
/// one form take less time because that saves one of the group's two exchanges.
void choose_sparse(std::span<TensorCost> tensors, std::span<const GroupCost> groups);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// CostModel: whether sparsifying a tensor saves time on a network (DRAGONN section 4.1, docs/algorithms.md 4.1).
#pragma once

#include <cstddef>

#include "comm/network_model.h"
#include "trainer/cost_model_profile.h"
#include "trainer/exchange_plan.h"

namespace dragonn::trainer {

/// Expected seconds of one exchange of a tensor, both ways.
struct TensorCost {
  std::size_t numel = 0;
  double full_seconds = 0;    ///< T_full: the dense allreduce
  double encode_seconds = 0;  ///< T_enc
  double decode_seconds = 0;  ///< T_dec
  double sparse_seconds = 0;  ///< T_spr: the sparse exchange on the network

  double sparsified_seconds() const { return encode_seconds + decode_seconds + sparse_seconds; }
  /// T_enc + T_dec < T_full - T_spr; dense where nothing is saved.
  bool saves_time() const { return encode_seconds + decode_seconds < full_seconds - sparse_seconds; }
};

/// The exchanges that are compared. All times are of one rank; the network's are those of its collectives' entries.
class CostModel {
 public:
  CostModel(const comm::NetworkModel& network, ExchangeRules rules, int world_size);

  /// @param curve times of the sparsifier at this density.
  TensorCost cost(const CostCurve& curve, std::size_t numel, double density) const;
  /// Of one exchange, headers included.
  double exchange_seconds(std::size_t numel, ExchangeForm form, double density) const;

 private:
  comm::NetworkModel network_;
  ExchangeRules rules_;
  int world_size_;
};

}  // namespace dragonn::trainer

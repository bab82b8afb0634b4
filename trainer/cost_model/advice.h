// SPDX-License-Identifier: MIT
/// Advice: compares a run's exchanges on a network with dense ones, and with those of other settings.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exchange/exchange_plan.h"
#include "trainer/cost_model/cost_model.h"
#include "trainer/cost_model/tensor_selection.h"

namespace dragonn::trainer {

/// Compares a step of the run, with its buckets, groups and choice of tensors, with dense exchanges of merged buckets
/// of 25 MiB beside backward, by each algorithm whose cost is known. All agree on one word per step. If no backward
/// time is known nothing overlaps.
///
/// The remedy is the fastest combination of compression.bucket, include_vectors, fusion_mib, overlap and codec.indices
/// and comm.dense_algorithm. Settings that change what a run learns from an entry (the method, its density, lossy
/// codes) are the user's choice and stay as they are.
/// @param costs decided (choose_sparse), as the run follows them; of a quantizer without tensors.
/// @param curve of their density.
StepAdvice advise(const SelectionQuestion& question, const comm::NetworkModel& network, const DensityCosts& costs,
                  const CostCurve& curve, std::optional<double> backward_seconds);

/// A way of exchanging gradients: settings, and the buckets that follow from them.
struct Way {
  exchange::ExchangeRules rules;
  std::vector<exchange::Bucket> buckets;
  std::vector<double> ready;              ///< by bucket, the share of backward after which it is final
  std::vector<std::string> changes = {};  ///< the settings that are not the run's: "compression.overlap = true"
  double expected_gain = 0;               ///< share of a step's time that these changes must gain
  std::vector<exchange::ExchangeForm> forms = {};  ///< by bucket

  void change(double gain, std::string setting) {
    changes.push_back(std::move(setting));
    expected_gain += gain;
  }
  bool overlaps() const { return rules.fusion.overlaps; }
  bool has(exchange::ExchangeForm form) const { return std::ranges::count(forms, form) > 0; }
};

/// Returns the run's own way.
/// @param costs decided, as the run follows them; without tensors all of them are compressed.
Way own_way(const SelectionQuestion& question, const DensityCosts& costs);
/// Returns all ways that the advice knows, the run's own first.
/// @param costs decided, as the run follows them.
std::vector<Way> exchange_ways(const SelectionQuestion& question, const comm::NetworkModel& network,
                               const DensityCosts& costs, const CostCurve& curve, bool may_overlap);

/// Returns the stages of an exchange of the run in its own way, with all buckets compressed that may be.
std::vector<ExchangeStage> own_stages(const SelectionQuestion& question, const CostCurve& curve, double density);

/// Returns the dense algorithms whose cost is known, the run's own first.
std::vector<std::string> dense_algorithms(const SelectionQuestion& question);
/// Returns the setting that chooses one.
std::string dense_setting(const std::string& algorithm);

}  // namespace dragonn::trainer

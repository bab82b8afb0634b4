// SPDX-License-Identifier: MIT
/// Ways of exchanging: settings of an exchange that keep its method, which the advice compares.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exchange/exchange_plan.h"
#include "trainer/cost_model/cost_model.h"
#include "trainer/cost_model/tensor_selection.h"

namespace dragonn::trainer {

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

/// Returns all ways that the advice knows, the run's own first.
/// @param costs decided, as the run follows them.
std::vector<Way> exchange_ways(const SelectionQuestion& question, const comm::NetworkModel& network,
                               const DensityCosts& costs, const CostCurve& curve, bool may_overlap);

/// Returns the dense algorithms whose cost is known, the run's own first.
std::vector<std::string> dense_algorithms(const SelectionQuestion& question);
/// Returns the setting that chooses one.
std::string dense_setting(const std::string& algorithm);

}  // namespace dragonn::trainer

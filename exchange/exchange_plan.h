// SPDX-License-Identifier: MIT
/// ExchangePlan: the traffic and memory of an exchange of gradients, computed before it is made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/prediction.h"
#include "comm/sparse/exchange_cost.h"
#include "core/parameter.h"
#include "exchange/buckets.h"
#include "exchange/exchange_rules.h"

namespace dragonn::exchange {

enum class ExchangeForm { kDense, kSparse, kQuantized };
constexpr auto choices(ExchangeForm) {
  return std::array{"dense", "sparse", "quantized"};
}

/// The plan of one bucket at one density.
struct BucketPlan {
  Bucket bucket;
  ExchangeForm form = ExchangeForm::kDense;
  std::size_t k = 0;           ///< entries that a rank sends: the target of a sparse bucket, else the bucket's size
  comm::Prediction cost = {};  ///< of an exchange of its own
  std::size_t group = 0;       ///< buckets of one group and one form are sent in the same messages; ascending
  int place = 0;               ///< of the worker in its node that exchanges it; 0 with one level
};

/// The plans of all buckets. With two levels the sizes are those of the place that has most.
struct ExchangePlan {
  std::vector<BucketPlan> buckets;
  double inside_bytes = 0;        ///< of gradients, which a worker of the largest node sends there with two levels
  std::size_t state_bytes = 0;    ///< memories
  std::size_t buffer_bytes = 0;   ///< selections or codes, messages and sums, in the memory of messages
  std::size_t max_bytes = 0;      ///< what these grow to if the counts are the highest that are forecast
  std::size_t staging_bytes = 0;  ///< the part of those that is held once more on the gradients' device

  /// Returns the cost of a step: the exchanges of all groups, one after the other; with two levels between nodes, of
  /// the place that sends most.
  comm::Prediction cost() const;
};

/// Plans the exchange. @param messages the place of lists and sums: host memory, unless NCCL sends them.
ExchangePlan plan_exchange(const ExchangeRules& rules, const ParameterArena& arena, double density, int world_size,
                           const Device& messages = {});

/// Returns, by bucket, the number of its group, ascending.
std::vector<std::size_t> exchange_groups(const ExchangeRules& rules, std::span<const Bucket> buckets);

/// Predicts a step of the same model without compression.
comm::Prediction predict_dense_step(ExchangeRules rules, const ParameterArena& arena, int world_size);

/// Returns the form in which a bucket is sent at this density.
ExchangeForm form_of(const ExchangeRules& rules, const Bucket& bucket, double density);

/// The part of a run that a prediction is for, and the end of the range of counts that it takes.
enum class RunPart { kFirstSteps, kSettled };
enum class RangeEnd { kLow, kExpected, kHigh };

/// Returns the counts that these rules are taken to have, by the forecasts of the sparsifier and the collective. Those
/// that a run has seen can take their place below.
comm::AssumedCounts forecast_counts(const ExchangeRules& rules, int world_size, RunPart part = RunPart::kSettled,
                                    RangeEnd end = RangeEnd::kExpected);

/// Returns the steps until the counts of these rules have settled; 0: they have from the first one on.
std::uint64_t unsettled_steps(const ExchangeRules& rules, int world_size);

/// Predicts the cost of one bucket in this form, mean over steps. @param counts of a sparse bucket; by default the
/// expected ones of settled steps.
comm::Prediction predict_bucket(const ExchangeRules& rules, const Bucket& bucket, ExchangeForm form, double density,
                                int world_size, const std::optional<comm::AssumedCounts>& counts = {});

/// Predicts the cost of a step of a plan's buckets, in their forms, with these counts.
comm::Prediction predict_step(const ExchangeRules& rules, const ExchangePlan& plan, double density, int world_size,
                              const comm::AssumedCounts& counts);

/// Forecasts the bytes of a plan's buckets.
ByteForecast forecast_bytes(const ExchangeRules& rules, const ExchangePlan& plan, double density, int world_size);

/// Returns "55 to 120 kB, in the first 30 steps 90 kB to 1.2 MB"; "55 kB" if nothing varies.
std::string describe(const ByteForecast& forecast);

/// Makes buckets dense that a choice leaves dense.
void apply_choice(const ExchangeRules& rules, const BucketChoice& choice, int world_size, ExchangePlan& plan);

}  // namespace dragonn::exchange

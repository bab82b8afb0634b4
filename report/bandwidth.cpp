// SPDX-License-Identifier: MIT
#include "report/bandwidth.h"

#include <algorithm>

#include "report/text.h"

namespace dragonn::report {

std::optional<TimeModel> time_model(const Run& run, const RunResult& result) {
  const auto network = run.network();
  if (!result.to_target || !result.to_target->time_ideal || !network || !network->gbps || *network->gbps <= 0) {
    return std::nullopt;
  }
  TimeModel model{*result.to_target->time_ideal, 0, result.to_target->bytes};
  model.latency = std::max(0.0, result.to_target->time - model.seconds(*network->gbps));
  return model;
}

std::optional<TimeModel> time_model(const Group& group) {
  TimeModel sum;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const auto model = time_model(group.runs[i], group.results[i]);
    if (!model) return std::nullopt;
    const double share = 1 / static_cast<double>(group.runs.size());
    sum.ideal += share * model->ideal;
    sum.latency += share * model->latency;
    sum.bytes += share * model->bytes;
  }
  return sum;
}

std::string BreakEven::text() const {
  switch (pays) {
    case Pays::kBelow:
      return "below " + bandwidth_text(gbps);
    case Pays::kAbove:
      return "above " + bandwidth_text(gbps);
    case Pays::kAlways:
      return "at every bandwidth";
    case Pays::kNever:
      break;
  }
  return "at no bandwidth";
}

BreakEven break_even(const TimeModel& run, const TimeModel& dense) {
  // Both are lines over 1 / bandwidth: they cross once, or one is never above the other.
  const double saved_bytes = dense.bytes - run.bytes, lost_seconds = run.fixed() - dense.fixed();
  if (saved_bytes <= 0 && lost_seconds >= 0) return {BreakEven::Pays::kNever, 0};
  if (saved_bytes >= 0 && lost_seconds <= 0) return {BreakEven::Pays::kAlways, 0};
  return {saved_bytes > 0 ? BreakEven::Pays::kBelow : BreakEven::Pays::kAbove, saved_bytes * 8 / lost_seconds / 1e9};
}

std::optional<BreakEven> break_even(const Comparison& comparison, const Group& group) {
  if (!comparison.dense || &group == &comparison.groups[*comparison.dense]) return std::nullopt;
  const auto dense = time_model(comparison.groups[*comparison.dense]);
  const auto model = time_model(group);
  return dense && model ? std::optional(break_even(*model, *dense)) : std::nullopt;
}

}  // namespace dragonn::report

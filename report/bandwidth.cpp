// SPDX-License-Identifier: MIT
#include "report/bandwidth.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "report/text.h"

namespace dragonn::report {

std::optional<TimeModel> time_model(const Run& run, const RunResult& result) {
  const auto network = run.network();
  if (!result.to_target || !result.to_target->time_ideal || !network || !network->gbps || *network->gbps <= 0) {
    return std::nullopt;
  }
  const Reached& reached = *result.to_target;
  const double on_network = std::max(0.0, *reached.time - *reached.time_ideal);
  const double messages = mean_of_steps(run, &StepPoint::messages).value_or(0);  // 0 where the run does not say
  const double travel = messages * *reached.step * network->latency_us.value_or(0) / 1e6;
  const double latency = std::min(travel, on_network);
  return TimeModel{*reached.time_ideal, latency, (on_network - latency) * *network->gbps};
}

std::optional<TimeModel> time_model(const Group& group) {
  TimeModel sum;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const auto model = time_model(group.runs[i], group.results[i]);
    if (!model) return std::nullopt;
    const double share = 1 / static_cast<double>(group.runs.size());
    sum.ideal += share * model->ideal;
    sum.latency += share * model->latency;
    sum.gigabits += share * model->gigabits;
  }
  return sum;
}

std::string BreakEven::text() const {
  if (pays == Pays::kAlways) return "at every bandwidth";
  if (pays == Pays::kNever) return "at no bandwidth";
  return fmt::format("{} {}", kPaysNames[static_cast<std::size_t>(pays)], bandwidth_text(gbps));
}

BreakEven break_even(const TimeModel& run, const TimeModel& dense) {
  // Both are lines over 1 / bandwidth: they cross once, or one is never above the other.
  const double saved = dense.gigabits - run.gigabits, lost = run.fixed() - dense.fixed();
  if (saved <= 0 && lost >= 0) return {BreakEven::Pays::kNever, 0};
  if (saved >= 0 && lost <= 0) return {BreakEven::Pays::kAlways, 0};
  return {saved > 0 ? BreakEven::Pays::kBelow : BreakEven::Pays::kAbove, saved / lost};
}

std::optional<BreakEven> break_even(const Comparison& comparison, const Group& group,
                                    const std::optional<TimeModel>& model) {
  const Group* const dense_group = comparison.dense_group();
  if (dense_group == nullptr || &group == dense_group) return std::nullopt;
  const auto dense = time_model(*dense_group);
  return dense && model ? std::optional(break_even(*model, *dense)) : std::nullopt;
}

}  // namespace dragonn::report

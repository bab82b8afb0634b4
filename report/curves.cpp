// SPDX-License-Identifier: MIT
#include "report/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/timer.h"

namespace dragonn::report {
namespace {

struct Sample {
  double step, epoch, time, bytes, value;
  double time_ideal;  ///< NaN if the run does not have it
};

/// Returns the samples of one run at the points that have the value.
template <class Point, class Value>
std::vector<Sample> samples(const std::vector<Point>& points, Value value) {
  std::vector<Sample> result;
  for (const Point& point : points) {
    if (const std::optional<double> v = value(point)) {
      result.push_back({point.step, point.epoch, point.time, point.bytes, *v,
                        point.time_ideal.value_or(std::numeric_limits<double>::quiet_NaN())});
    }
  }
  return result;
}

/// Adds a point: the samples of all runs at one step.
void add_point(Curve& curve, const std::vector<Sample>& at_step) {
  const auto mean = [&](double Sample::*field) {
    double sum = 0;
    for (const Sample& sample : at_step) sum += sample.*field;
    return sum / static_cast<double>(at_step.size());
  };
  const auto [low, high] = std::ranges::minmax_element(at_step, {}, &Sample::value);
  curve.step.push_back(mean(&Sample::step));
  curve.epoch.push_back(mean(&Sample::epoch));
  curve.time.push_back(mean(&Sample::time));
  curve.bytes.push_back(mean(&Sample::bytes));
  curve.mean.push_back(mean(&Sample::value));
  curve.low.push_back(low->value);
  curve.high.push_back(high->value);
  curve.time_ideal.push_back(mean(&Sample::time_ideal));
}

/// Joins the runs on the steps that all of them have.
Curve join(const std::vector<std::vector<Sample>>& runs) {
  Curve curve;
  std::vector<std::size_t> next(runs.size(), 0);
  for (const Sample& first : runs.front()) {
    std::vector<Sample> at_step;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      while (next[run] < runs[run].size() && runs[run][next[run]].step < first.step) ++next[run];
      if (next[run] < runs[run].size() && runs[run][next[run]].step == first.step) {
        at_step.push_back(runs[run][next[run]]);
      }
    }
    if (at_step.size() == runs.size()) add_point(curve, at_step);
  }
  if (std::ranges::any_of(curve.time_ideal, [](double time) { return std::isnan(time); })) curve.time_ideal.clear();
  return curve;
}

std::vector<double> thinned(const std::vector<double>& values, std::size_t stride) {
  std::vector<double> result;
  for (std::size_t begin = 0; begin < values.size(); begin += stride) {
    const std::size_t end = std::min(begin + stride, values.size());
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = values.begin() + static_cast<std::ptrdiff_t>(end);
    result.push_back(std::accumulate(first, last, 0.0) / static_cast<double>(end - begin));
  }
  return result;
}

Curve thin(Curve curve) {
  const std::size_t stride = (curve.step.size() + kMaxPoints - 1) / kMaxPoints;
  if (stride < 2) return curve;
  for (auto field : {&Curve::step, &Curve::epoch, &Curve::time, &Curve::bytes, &Curve::mean, &Curve::low, &Curve::high,
                     &Curve::time_ideal}) {
    curve.*field = thinned(curve.*field, stride);
  }
  return curve;
}

template <class Point, class Value>
Curve group_curve(const Group& group, std::vector<Point> Run::*points, Value value) {
  std::vector<std::vector<Sample>> runs;
  for (const Run& run : group.runs) runs.push_back(samples(run.*points, value));
  return thin(join(runs));
}

}  // namespace

Curve metric_curve(const Group& group, const Metric& metric) {
  return group_curve(group, &Run::evals, [&](const EvalPoint& point) { return value_of(point, metric); });
}

Curve step_curve(const Group& group, std::optional<double> StepPoint::*number) {
  return group_curve(group, &Run::steps, [&](const StepPoint& point) { return point.*number; });
}

ThresholdTrace threshold_trace(const Group& group) {
  const auto has_both = [](const StepPoint& point) { return point.threshold && point.residual_norm; };
  double thresholds = 0, norms = 0;
  for (const Run& run : group.runs) {
    for (const StepPoint& point : run.steps) {
      if (!has_both(point)) continue;
      thresholds += *point.threshold;
      norms += *point.residual_norm;
    }
  }
  if (norms <= 0) return {};
  const auto curve = [&](auto value) {
    return group_curve(group, &Run::steps, [&](const StepPoint& point) {
      return has_both(point) ? std::optional<double>(value(point)) : std::nullopt;
    });
  };
  return {curve([](const StepPoint& point) { return *point.threshold; }),
          curve([&](const StepPoint& point) { return *point.residual_norm * thresholds / norms; })};
}

std::map<std::string, double> seconds_by_part(std::span<const Run> runs) {
  std::map<std::string, double> sums;
  std::size_t lines = 0;
  for (const Run& run : runs) {
    for (std::size_t i = run.steps.size() > 1 ? 1 : 0; i < run.steps.size(); ++i, ++lines) {
      for (const auto& [part, seconds] : run.steps[i].seconds) sums[part] += seconds;
    }
  }
  for (auto& [part, seconds] : sums) seconds /= static_cast<double>(lines);
  return sums;
}

std::optional<SelectCost> select_cost(std::span<const Run> runs) {
  SelectCost cost;
  double all = 0;
  for (const auto& [part, seconds] : seconds_by_part(runs)) {
    if (is_overlap_share(part)) continue;
    all += seconds;
    if (part == "compensate" || part == "select" || part == "compensate_select") cost.seconds += seconds;
  }
  if (all <= 0) return std::nullopt;
  cost.share = cost.seconds / all;
  return cost;
}

}  // namespace dragonn::report

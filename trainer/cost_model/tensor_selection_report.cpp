// SPDX-License-Identifier: MIT
/// The report on the choice of tensors: the table, and the advice.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/units_text.h"
#include "trainer/cost_model/tensor_selection.h"

namespace dragonn::trainer {
namespace {

/// Times that differ by less are told to be about the same.
constexpr double kClearly = 0.9;

std::string milliseconds(double seconds) {
  return fmt::format("{:.4f}", seconds * 1e3);
}

std::size_t sparse_tensors(const DensityCosts& costs) {
  return static_cast<std::size_t>(std::ranges::count(costs.tensors, true, &TensorCost::is_sparse));
}

std::string grounds_text(const TensorSelection& selection) {
  const int sharing = selection.workers_per_node;
  const std::string ranks = sharing == 1 ? fmt::format("{} workers", selection.ranks)
                                         : fmt::format("{} nodes of {} workers", selection.ranks, sharing);
  return fmt::format("{} between {} ({}; profile {})",
                     network_text(selection.network.gbps(), selection.network.latency_us()), ranks,
                     selection.network_source, selection.profile_source);
}

/// Returns "4.1 ms, overlapped".
std::string added_text(double seconds, bool overlaps) {
  return fmt::format("{} ms{}", three_digits(seconds * 1e3), overlaps ? " beside backward" : "");
}

/// Returns "4.1 ms beside backward (3.9 to 6.2 ms; in the first 30 steps 5 to 8 ms)".
std::string sparse_text(const StepAdvice& advice) {
  const auto range = [](const SecondsRange& seconds) {
    return fmt::format("{} to {} ms", three_digits(seconds.low * 1e3), three_digits(seconds.high * 1e3));
  };
  std::vector<std::string> ranges;
  if (!advice.sparse_range.is_exact()) ranges.push_back(range(advice.sparse_range));
  if (advice.first_steps > 0)
    ranges.push_back(fmt::format("in the first {} steps {}", advice.first_steps, range(advice.first_range)));
  const std::string text = added_text(advice.sparse_seconds, advice.sparse_overlaps);
  return ranges.empty() ? text : fmt::format("{} ({})", text, fmt::join(ranges, "; "));
}

/// Returns "dense ones in DDP's buckets 672 ms with comm.dense_algorithm = ...".
std::string dense_text(const TensorSelection& selection) {
  const StepAdvice& advice = *selection.advice;
  // A dense run has two levels only if it asks for them.
  std::string text = fmt::format("dense ones in DDP's buckets{} {}",
                                 selection.workers_per_node > 1 ? ", with comm.hierarchy = \"node\"," : "",
                                 added_text(advice.dense_seconds, advice.dense_overlaps));
  if (!advice.dense_setting.empty()) text += " with " + advice.dense_setting;
  if (advice.dense_seconds != advice.ring_seconds) {
    text += fmt::format(" (a ring, as PyTorch DDP over gloo: {} ms)", three_digits(advice.ring_seconds * 1e3));
  }
  return text;
}

/// Returns the headline.
std::string verdict(const TensorSelection& selection) {
  const StepAdvice& advice = *selection.advice;
  const bool quantizes = selection.densities.empty();
  if (advice.is_uncertain()) return "sparse may be slower than dense, by the entries that it selects";
  if (advice.sparse_is_faster()) return quantizes ? "quantizing pays" : "sparsifying pays";
  if (advice.remedy_beats_dense()) {
    const bool is_clear = advice.remedy_seconds < kClearly * advice.dense_seconds;
    return fmt::format("dense is faster than these settings, and {} {}", advice.remedy,
                       is_clear ? "faster than both" : "about as fast as dense");
  }
  return !quantizes && sparse_tensors(selection.densities.back()) == 0 ? "dense is faster for everything"
                                                                       : "dense is faster";
}

/// @param name of what is compared with dense.
std::string break_even_text(const StepAdvice& advice, const std::string& name) {
  if (!advice.break_even_gbps) return "at any bandwidth with this latency";
  const std::string bandwidth = bandwidth_text(*advice.break_even_gbps);
  return advice.sparse_is_faster() ? "dense wins above " + bandwidth : name + " wins below " + bandwidth;
}

}  // namespace

std::vector<std::string> describe(const TensorSelection& selection, double density) {
  const DensityCosts& costs = selection.at(density);
  std::vector<std::vector<std::string>> rows{
      {"tensor", "size", "T_full ms", "T_enc ms", "T_dec ms", "T_spr ms", "decision"}};
  for (std::size_t i = 0; i < costs.tensors.size(); ++i) {
    const TensorCost& cost = costs.tensors[i];
    rows.push_back({selection.tensors[i], std::to_string(cost.numel), milliseconds(cost.full_seconds),
                    milliseconds(cost.encode_seconds), milliseconds(cost.decode_seconds),
                    milliseconds(cost.sparse_seconds), cost.is_sparse ? "sparse" : "dense"});
  }
  GroupCost latencies;
  for (const GroupCost& group : costs.groups) {
    latencies.full_seconds += group.full_seconds;
    latencies.sparse_seconds += group.sparse_seconds;
  }
  rows.push_back({"latencies", "", milliseconds(latencies.full_seconds), "", "", milliseconds(latencies.sparse_seconds),
                  fmt::format("of {} groups", costs.groups.size())});
  std::vector<std::string> lines = table_lines(std::move(rows), "<>>>>><");
  lines.insert(lines.begin(), fmt::format("cost model at density {}: {} of {} tensors gain by sparsifying; {}", density,
                                          sparse_tensors(costs), costs.tensors.size(), grounds_text(selection)));
  return lines;
}

std::string describe_advice(const TensorSelection& selection) {
  const StepAdvice& advice = selection.advice.value();
  const bool quantizes = selection.densities.empty();
  std::string text = fmt::format(
      "{}: {}exchanges add {} to a step, {}; {}", verdict(selection),
      quantizes ? "quantized " : fmt::format("at density {} ", selection.densities.back().density), sparse_text(advice),
      dense_text(selection), break_even_text(advice, quantizes ? "quantized" : "sparse"));
  if (!advice.remedy.empty()) {
    text += fmt::format("; {} would add {} ms", advice.remedy, three_digits(advice.remedy_seconds * 1e3));
  }
  if (advice.round_gbps) {
    text += fmt::format("; H = {}: the exchange takes {:.0f} % of a round at {}", advice.steps_per_exchange,
                        100 * kRoundShare, bandwidth_text(*advice.round_gbps));
  }
  return fmt::format("{}; {}", text, grounds_text(selection));
}

}  // namespace dragonn::trainer

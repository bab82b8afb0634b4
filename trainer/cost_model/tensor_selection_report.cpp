// SPDX-License-Identifier: MIT
/// The report on the choice of tensors: the table, and the advice.
#include <algorithm>

#include <fmt/format.h>

#include "core/units_text.h"
#include "trainer/cost_model/tensor_selection.h"

namespace dragonn::trainer {
namespace {

std::string milliseconds(double seconds) {
  return fmt::format("{:.4f}", seconds * 1e3);
}

std::size_t sparse_tensors(const DensityCosts& costs) {
  return static_cast<std::size_t>(std::ranges::count(costs.tensors, true, &TensorCost::is_sparse));
}

std::string grounds_text(const TensorSelection& selection) {
  return fmt::format("{} between {} workers ({}; profile {})",
                     network_text(selection.network.gbps(), selection.network.latency_us()), selection.ranks,
                     selection.network_source, selection.profile_source);
}

/// Returns "4.1 ms, overlapped".
std::string added_text(double seconds, bool overlaps) {
  return fmt::format("{} ms{}", three_digits(seconds * 1e3), overlaps ? " beside backward" : "");
}

std::string break_even_text(const StepAdvice& advice) {
  if (!advice.break_even_gbps) return "at any bandwidth with this latency";
  const std::string bandwidth = bandwidth_text(*advice.break_even_gbps);
  return advice.sparse_is_faster() ? fmt::format("dense wins above {}", bandwidth)
                                   : fmt::format("sparse wins below {}", bandwidth);
}

}  // namespace

std::vector<std::string> describe(const TensorSelection& selection, double density) {
  const DensityCosts& costs = selection.at(density);
  std::size_t width = std::string_view("latencies").size();
  for (const std::string& tensor : selection.tensors) width = std::max(width, tensor.size());
  const auto line = [&](const std::string& tensor, const auto& size, const auto& full, const auto& encode,
                        const auto& decode, const auto& sparse, const auto& decision) {
    return fmt::format("{:<{}} {:>11} {:>12} {:>12} {:>12} {:>12}  {}", tensor, width, size, full, encode, decode,
                       sparse, decision);
  };
  std::vector<std::string> lines{
      fmt::format("cost model at density {}: {} of {} tensors gain by sparsifying; {}", density, sparse_tensors(costs),
                  costs.tensors.size(), grounds_text(selection)),
      line("tensor", "size", "T_full ms", "T_enc ms", "T_dec ms", "T_spr ms", "decision")};
  for (std::size_t i = 0; i < costs.tensors.size(); ++i) {
    const TensorCost& cost = costs.tensors[i];
    lines.push_back(line(selection.tensors[i], cost.numel, milliseconds(cost.full_seconds),
                         milliseconds(cost.encode_seconds), milliseconds(cost.decode_seconds),
                         milliseconds(cost.sparse_seconds), cost.is_sparse ? "sparse" : "dense"));
  }
  GroupCost latencies;
  for (const GroupCost& group : costs.groups) {
    latencies.full_seconds += group.full_seconds;
    latencies.sparse_seconds += group.sparse_seconds;
  }
  lines.push_back(line("latencies", "", milliseconds(latencies.full_seconds), "", "",
                       milliseconds(latencies.sparse_seconds), fmt::format("of {} groups", costs.groups.size())));
  return lines;
}

std::string describe_advice(const TensorSelection& selection) {
  const StepAdvice& advice = selection.advice.value();
  const DensityCosts& costs = selection.densities.back();
  std::string text = advice.sparse_is_faster()    ? "sparsifying pays"
                     : sparse_tensors(costs) == 0 ? "dense is faster for everything"
                                                  : "dense is faster";
  text += fmt::format(": at density {} exchanges add {} to a step, dense ones in buckets of 25 MiB {}; {}",
                      costs.density, added_text(advice.sparse_seconds, advice.sparse_overlaps),
                      added_text(advice.dense_seconds, advice.dense_overlaps), break_even_text(advice));
  if (!advice.remedy.empty()) {
    text += fmt::format("; {} would add {} ms", advice.remedy, three_digits(advice.remedy_seconds * 1e3));
  }
  return fmt::format("{}; {}", text, grounds_text(selection));
}

}  // namespace dragonn::trainer

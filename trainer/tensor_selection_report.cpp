// SPDX-License-Identifier: MIT
/// What a run says of its tensor selection: the table, and the warning that nothing is gained.
#include <algorithm>

#include <fmt/format.h>

#include "trainer/tensor_selection.h"

namespace dragonn::trainer {
namespace {

std::string milliseconds(double seconds) {
  return fmt::format("{:.4f}", seconds * 1e3);
}

std::size_t saving_tensors(const DensityCosts& costs) {
  return static_cast<std::size_t>(std::ranges::count_if(costs.tensors, &TensorCost::saves_time));
}

std::string network_text(const TensorSelection& selection) {
  return fmt::format("{:.4g} us and {:.4g} Gbit/s between {} workers", selection.network.latency_us(),
                     selection.network.gbps(), selection.ranks);
}

}  // namespace

std::vector<std::string> describe(const TensorSelection& selection, double density) {
  const DensityCosts& costs = selection.at(density);
  std::size_t width = std::string_view("tensor").size();
  for (const std::string& tensor : selection.tensors) width = std::max(width, tensor.size());
  const auto line = [&](const std::string& tensor, const auto& size, const auto& full, const auto& encode,
                        const auto& decode, const auto& sparse, const auto& decision) {
    return fmt::format("{:<{}} {:>11} {:>12} {:>12} {:>12} {:>12}  {}", tensor, width, size, full, encode, decode,
                       sparse, decision);
  };
  std::vector<std::string> lines{
      fmt::format("cost model at density {}: {} of {} tensors gain by sparsifying; network {} ({}), profile {}",
                  density, saving_tensors(costs), costs.tensors.size(), network_text(selection),
                  selection.network_source, selection.profile_source),
      line("tensor", "size", "T_full ms", "T_enc ms", "T_dec ms", "T_spr ms", "decision")};
  for (std::size_t i = 0; i < costs.tensors.size(); ++i) {
    const TensorCost& cost = costs.tensors[i];
    lines.push_back(line(selection.tensors[i], cost.numel, milliseconds(cost.full_seconds),
                         milliseconds(cost.encode_seconds), milliseconds(cost.decode_seconds),
                         milliseconds(cost.sparse_seconds), cost.saves_time() ? "sparse" : "dense"));
  }
  return lines;
}

std::string dense_is_faster(const TensorSelection& selection, double density, bool applied) {
  const DensityCosts& costs = selection.at(density);
  double dense = 0, sparsified = 0;
  for (const TensorCost& cost : costs.tensors) {
    dense += cost.full_seconds;
    sparsified += cost.sparsified_seconds();
  }
  if (applied ? saving_tensors(costs) > 0 : sparsified < dense) return "";
  return fmt::format(
      "dense is faster for everything: with {}, at density {}, sparsifying all {} tensors takes {} ms per step and "
      "their dense allreduces {} ms{}",
      network_text(selection), density, costs.tensors.size(), milliseconds(sparsified), milliseconds(dense),
      applied ? "; all are sent dense" : "");
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "comm/sparse/exchange_cost.h"

#include <algorithm>
#include <cmath>

#include "comm/sparse/batch_decoder.h"

namespace dragonn::comm {
namespace {

/// The places of the ranks' entries are independent of each other, but for those on which real gradients agree.
double expected_union(const ExchangeSizes& sizes, double share) {
  const auto numel = static_cast<double>(sizes.numel);
  return numel * (1 - std::pow(1 - share * sizes.selected / numel, sizes.ranks));
}

double expected_sum(SumSize sum, const ExchangeSizes& sizes, double share) {
  const auto numel = static_cast<double>(sizes.numel);
  if (sum == SumSize::kDense) return numel;
  if (sizes.selection.shared_indices) return sizes.selected;
  if (sum == SumSize::kOneRank) return sizes.selection.leader_only ? sizes.largest : sizes.selected;
  const double by_all = sizes.selected * sizes.ranks;
  const double max = std::min(by_all, numel);
  if (sum == SumSize::kTarget) return std::min(share * static_cast<double>(sizes.k), max);
  return share < 1 ? std::clamp(expected_union(sizes, share), std::min(sizes.largest, max), max) : max;
}

}  // namespace

ExchangeSizes expected_sizes(const SparseCollectiveEntry& entry, const SelectionTraits& selection, std::size_t numel,
                             std::size_t k, int ranks, const AssumedCounts& counts) {
  ExchangeSizes sizes{.numel = numel, .k = std::min(k, numel), .ranks = ranks, .selection = selection};
  const bool is_shared_out = selection.partitioned || selection.leader_only;
  const double share = selection.fits_k_slots() ? std::min(counts.selected, 1.0) : counts.selected;
  const double by_rank = std::min(share * static_cast<double>(sizes.k), static_cast<double>(numel));
  sizes.selected = is_shared_out ? by_rank / ranks : by_rank;
  const double max = is_shared_out ? by_rank : static_cast<double>(numel);
  sizes.largest = selection.leader_only ? by_rank : std::min(sizes.selected * counts.longest, max);
  sizes.global = expected_sum(entry.sum, sizes, counts.sum);
  return sizes;
}

CountForecast union_forecast(const Settings& /*settings*/, int ranks) {
  return {.settled = {std::max(1.0 / ranks, 1 - 0.25 * std::log2(ranks)), 0.96, 1}};
}

std::size_t list_bytes(double entries) {
  return static_cast<std::size_t>(entries * static_cast<double>(SparseVector::kEntryBytes));
}

std::size_t word_bytes(double words) {
  return static_cast<std::size_t>(words * sizeof(float));
}

std::size_t result_bytes(const ExchangeSizes& sizes) {
  return list_bytes(sizes.global) + word_bytes(sizes.selected);
}

std::size_t coding_error_bytes(const ExchangeSizes& sizes, double sums) {
  if (!sizes.coding.is_lossy()) return 0;
  const double left = sizes.selected + sums, merged = sums > 0 ? left : 0;
  const double sent = sizes.selected;  // the values that its code decodes to
  return list_bytes(2 * left + merged + sums) + word_bytes(sent + sizes.selected);
}

std::size_t decoder_bytes(const ExchangeSizes& sizes, const Device& device) {
  // A GPU holds n values and a bit for each (kernels::ListDecoder).
  return device.is_cpu() ? sizeof(BatchDecoder) : word_bytes(static_cast<double>(sizes.numel) * (1 + 1.0 / 32));
}

}  // namespace dragonn::comm

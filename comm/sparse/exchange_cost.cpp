// SPDX-License-Identifier: MIT
#include "comm/sparse/exchange_cost.h"

#include <algorithm>

#include "comm/sparse/batch_decoder.h"

namespace dragonn::comm {
namespace {

double expected_sum(SumSize sum, const ExchangeSizes& sizes) {
  const auto numel = static_cast<double>(sizes.numel);
  switch (sum) {
    case SumSize::kUnion:
      return sizes.selection.shared_indices ? sizes.selected : std::min(sizes.selected * sizes.ranks, numel);
    case SumSize::kTarget:
      return static_cast<double>(sizes.k);
    case SumSize::kDense:
      return numel;
  }
  return 0;
}

}  // namespace

ExchangeSizes expected_sizes(const SparseCollectiveEntry& entry, const SelectionTraits& selection, std::size_t numel,
                             std::size_t k, int ranks) {
  ExchangeSizes sizes{.numel = numel, .k = std::min(k, numel), .ranks = ranks, .selection = selection};
  const auto target = static_cast<double>(sizes.k);
  const bool is_shared_out = selection.partitioned || selection.leader_only;
  sizes.selected = is_shared_out ? target / ranks : target;
  sizes.largest = selection.leader_only ? target : sizes.selected;
  sizes.global = expected_sum(entry.sum, sizes);
  return sizes;
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

std::size_t decoder_bytes(const ExchangeSizes& sizes, const Device& device) {
  // A GPU holds n values and a bit for each (kernels::ListDecoder).
  return device.is_cpu() ? sizeof(BatchDecoder) : word_bytes(static_cast<double>(sizes.numel) * (1 + 1.0 / 32));
}

}  // namespace dragonn::comm

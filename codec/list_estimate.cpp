// SPDX-License-Identifier: MIT
#include "codec/list_estimate.h"

#include <cmath>

namespace dragonn::codec {

ListEstimate::ListEstimate(const ListCoding& coding) {
  const auto& indices = Registry<IndexCodecEntry>::instance().at(coding.indices.name);
  const auto& values = Registry<ListValueCodecEntry>::instance().at(coding.values.name);
  if (coding.is_raw()) return;
  indices_ = indices.make(coding.indices.settings);
  values_ = values.make(coding.values.settings);
  is_estimate_ = !indices.is_exact;
  if (values.carries_sums) sum_bytes_ = static_cast<double>(values_->code_bytes(1));
}

double ListEstimate::bytes(double entries, double numel) const {
  if (entries <= 0) return 0;
  if (!indices_) return entries * static_cast<double>(SparseVector::kEntryBytes);
  return index_bytes(entries, numel) +
         static_cast<double>(values_->code_bytes(static_cast<std::size_t>(std::ceil(entries))));
}

double ListEstimate::index_bytes(double entries, double numel) const {
  if (entries <= 0) return 0;
  if (!indices_) return entries * sizeof(std::uint32_t);
  return entries * indices_->expected_bits(entries, numel) / 8;
}

}  // namespace dragonn::codec

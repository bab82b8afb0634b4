// SPDX-License-Identifier: MIT
#include "compress/candidate_pool.h"

#include "compress/sampling.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {

CandidatePool::CandidatePool(std::size_t numel, const Device& device) : numel_(numel), pass_(device), scratch_(device) {
  pass_.reserve(numel);
  scratch_.reserve(numel);
}

void CandidatePool::gather(View<const float> acc, std::size_t most, const SelectContext& context,
                           std::string_view purpose) {
  kernels::examine(bounded_request(numel_, most + 1, context, purpose), acc, pass_);
  entries_ = &pass_.selected;
  bound_ = pass_.threshold;
  if (entries_->size() > most || bound_ <= 0) return;
  bound_ = kernels::magnitude_lower_bound(acc, most + 1, scratch_);
  kernels::select_threshold(acc, bound_, scratch_.candidates);
  entries_ = &scratch_.candidates;
}

std::size_t CandidatePool::count(float threshold) const {
  return threshold <= bound_ ? entries_->size() : kernels::count_threshold(*entries_, threshold);
}

void CandidatePool::select(View<const float> acc, float threshold, SparseVector& selected) const {
  if (threshold < bound_) {
    kernels::select_threshold(acc, threshold, selected);
  } else {
    kernels::filter_threshold(*entries_, threshold, selected);
  }
}

float CandidatePool::select_largest(std::size_t k, SparseVector& selected) {
  return kernels::keep_largest(*entries_, k, scratch_, selected);
}

}  // namespace dragonn::compress

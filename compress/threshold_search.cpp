// SPDX-License-Identifier: MIT
#include "compress/threshold_search.h"

#include "kernels/gradient/select.h"

namespace dragonn::compress {

ThresholdSearchResult search_threshold(const ThresholdSearchRules& rules, View<const float> acc, std::size_t k,
                                       float threshold, const SparseVector& candidates, SparseVector& wider,
                                       SparseVector& selected) {
  const auto target = static_cast<double>(k);
  const double few = rules.too_few * target;
  const double many = rules.too_many * target;
  const SparseVector* pool = &candidates;
  float pool_threshold = threshold;
  std::size_t count = candidates.size();
  ThresholdSearchResult result{.threshold = threshold};
  while (result.changes < rules.most_changes && result.threshold > 0) {
    const bool too_few = static_cast<double>(count) < few;
    const bool too_many = static_cast<double>(count) > many;
    if ((!too_few && !too_many) || (too_many && rules.stop_above)) break;
    result.threshold *= too_few ? rules.lower : rules.raise;
    ++result.changes;
    if (result.threshold < pool_threshold) {
      kernels::select_threshold(acc, result.threshold, wider);
      pool = &wider;
      pool_threshold = result.threshold;
    }
    count = kernels::count_threshold(*pool, result.threshold);
  }
  if (result.threshold == pool_threshold) {
    kernels::copy_entries(*pool, selected);  // all of them reach it; on a GPU nobody has to wait for their number
  } else {
    kernels::filter_threshold(*pool, result.threshold, selected);
  }
  return result;
}

}  // namespace dragonn::compress

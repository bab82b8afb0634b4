// SPDX-License-Identifier: MIT
/// ThresholdSearch: moves a threshold up and down until it selects about k entries.
#pragma once

#include <cstddef>

#include "core/sparse_vector.h"
#include "core/view.h"

namespace dragonn::compress {

/// The counts that a search accepts, and its moves for the others.
struct ThresholdSearchRules {
  double too_few = 0;       ///< fewer than this times k entries: the threshold is multiplied by `lower`
  double too_many = 0;      ///< more than this times k entries: multiplied by `raise`, or the search ends
  float lower = 1;          ///< below 1
  float raise = 1;          ///< above 1; unused if `stop_above`
  bool stop_above = false;  ///< too many ends the search: the caller chooses among them
  int most_changes = 10;    ///< the search ends after this many, whatever the count
};

/// The end of a search.
struct ThresholdSearchResult {
  float threshold = 0;
  int changes = 0;
};

/// Starts at `threshold`, for which `candidates` are the entries of `acc` that reach it. Ends at the threshold it
/// returns, with the entries that reach that one in `selected`. It makes a pass over acc only when the threshold falls
/// below every one before. A threshold of 0 is not changed: it selects everything that there is.
ThresholdSearchResult search_threshold(const ThresholdSearchRules& rules, View<const float> acc, std::size_t k,
                                       float threshold, const SparseVector& candidates, SparseVector& wider,
                                       SparseVector& selected);

}  // namespace dragonn::compress

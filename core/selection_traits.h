// SPDX-License-Identifier: MIT
/// SelectionTraits: a sparsifier's promises about its selections. A collective decides by them whether the two fit
/// (docs/algorithms.md, section 5).
#pragma once

namespace dragonn {

struct SelectionTraits {
  bool fixed_size = false;      ///< every rank selects exactly min(k, n) entries, always
  bool at_most_k = false;       ///< no rank ever selects more than k entries
  bool shared_indices = false;  ///< all ranks select the same indices, drawn from a shared seed
  bool partitioned = false;     ///< ranks select in disjoint ranges
  bool leader_only = false;     ///< only the leader's selection counts
  bool rescaled = false;        ///< values differ from acc at the selected indices
  bool blind = false;           ///< indices are chosen without reading the values

  /// Returns whether a message of k slots holds any selection, so that its size need not be sent.
  bool fits_k_slots() const { return fixed_size || at_most_k; }
};

}  // namespace dragonn

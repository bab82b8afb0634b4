// SPDX-License-Identifier: MIT
/// CandidatePool: counts the entries that reach a threshold, for a search that tries many, from one pass.
#pragma once

#include <cstddef>
#include <string_view>

#include "compress/sparsifier.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::compress {

/// The largest entries of a vector, somewhat more than a search has to count exactly: for a threshold that more entries
/// reach, the search only has to know that there are too many. So a search over any number of thresholds reads the
/// vector once, and its result is that of counting each of them.
class CandidatePool {
 public:
  CandidatePool(std::size_t numel, const Device& device);

  /// Collects more than `most` entries of acc [n], or all that are not zero. A sample gives the bound. It takes one
  /// pass, and two more if the sample misled. `purpose` and the context key the sample, on which no result depends.
  void gather(View<const float> acc, std::size_t most, const SelectContext& context, std::string_view purpose);

  /// Returns the entries of the pool: all that reach bound().
  const SparseVector& entries() const { return *entries_; }
  float bound() const { return bound_; }

  /// Returns how many entries of acc reach the threshold. At or below the bound it returns the pool's size, which then
  /// is more than `most`, or all there are.
  std::size_t count(float threshold) const;
  /// Selects all entries of acc that reach the threshold; below the bound by one more pass.
  void select(View<const float> acc, float threshold, SparseVector& selected) const;
  /// Selects the k largest, k <= most + 1; ties go to the lower index. Returns the smallest magnitude, 0 if none is
  /// selected.
  float select_largest(std::size_t k, SparseVector& selected);

 private:
  std::size_t numel_;
  kernels::PassResult pass_;
  kernels::MagnitudeScratch scratch_;
  const SparseVector* entries_ = &pass_.selected;  // or the scratch's, collected again
  float bound_ = 0;
};

}  // namespace dragonn::compress

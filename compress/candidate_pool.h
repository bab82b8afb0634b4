// SPDX-License-Identifier: MIT
/// CandidatePool: answers how many entries reach a threshold, for a search that tries many, from one pass.
#pragma once

#include <cstddef>
#include <string_view>

#include "compress/sparsifier.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::compress {

/// The largest entries of a vector, somewhat more than a search cares to tell apart: where a threshold is reached by
/// more entries than that, the search only has to know that there are too many. So a search over any number of
/// thresholds reads the vector once, and its result is that of counting each of them.
class CandidatePool {
 public:
  CandidatePool(std::size_t numel, const Device& device);

  /// Collects more than `most` entries of acc [n], or all that are not zero. A sample gives the bound; one pass, and
  /// two more when the sample misled. `purpose` and the context key the sample, on which no answer depends.
  void gather(View<const float> acc, std::size_t most, const SelectContext& context, std::string_view purpose);

  /// The entries of the pool: all that reach bound().
  const SparseVector& entries() const { return *entries_; }
  float bound() const { return bound_; }

  /// How many entries of acc reach the threshold; at or below the bound the pool's size, which then is more than `most`
  /// or all there are.
  std::size_t count(float threshold) const;
  /// All entries of acc that reach the threshold. Below the bound: one more pass.
  void select(View<const float> acc, float threshold, SparseVector& selected) const;
  /// The k largest, k <= most + 1; ties go to the lower index. Returns the smallest magnitude, 0 if none is selected.
  float select_largest(std::size_t k, SparseVector& selected);

 private:
  std::size_t numel_;
  kernels::PassResult pass_;
  kernels::MagnitudeScratch scratch_;
  const SparseVector* entries_ = &pass_.selected;  // or the scratch's, collected again
  float bound_ = 0;
};

}  // namespace dragonn::compress

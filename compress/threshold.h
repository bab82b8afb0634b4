// SPDX-License-Identifier: MIT
/// Thresholds: estimated from a sample, counted in a pool of candidates, and searched for.
#pragma once

#include <cstddef>
#include <string_view>

#include "compress/sparsifier.h"
#include "core/sparse_vector.h"
#include "core/view.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::compress {

/// Returns the x that a standard normal variable exceeds with this probability: the inverse of erfc(x / sqrt(2)) / 2,
/// by bisection to the last bit. @param probability in (0, 0.5]; the result is in [0, 39).
double normal_upper_quantile(double probability);

/// The size of a sample. The relative error of the number of entries above its threshold is about 1 / sqrt(its rank).
struct SampleRules {
  double ratio = 0.01;                     ///< share of the elements
  std::size_t max = std::size_t{1} << 20;  ///< elements that the share asks for, at most
  std::size_t minimum_rank = 2;            ///< the sample is at least so large that the threshold has this rank in it
};

/// Declares the settings `sample_ratio`, `sample_most` and `sample_rank`, shared by the methods that sample.
SettingSpecs sample_settings();
SampleRules sample_rules(const Settings& settings);

/// Returns the request for entries above a sampled threshold, that of the `density` largest share of `numel`
/// magnitudes: the ceil(q * density)-th of a sample of q; 0 from a density of 1 on. `purpose` and the context key the
/// places.
kernels::PassRequest sampled_request(const SampleRules& rules, std::size_t numel, double density,
                                     const SelectContext& context, std::string_view purpose);

/// Returns the request for the candidates of an exact choice of the `count` largest (kernels::select_largest): entries
/// above a sampled bound that is all but always a little below the count-th magnitude.
kernels::PassRequest bounded_request(std::size_t numel, std::size_t count, const SelectContext& context,
                                     std::string_view purpose);

/// The largest entries of a vector, somewhat more than a search has to count exactly: of a lower threshold it only has
/// to know that there are too many. So a search over any number of thresholds reads the vector once.
class CandidatePool {
 public:
  CandidatePool(std::size_t numel, const Device& device);

  /// Collects more than `max` entries of acc [n], or all that are not zero. A sample gives the bound. It takes one
  /// pass, and two more if the sample misled. `purpose` and the context key the sample, on which no result depends.
  void gather(View<const float> acc, std::size_t max, const SelectContext& context, std::string_view purpose);

  /// Returns the entries of the pool: all that reach bound().
  const SparseVector& entries() const { return *entries_; }
  float bound() const { return bound_; }

  /// Returns how many entries of acc reach the threshold; at or below the bound the pool's size, above `max` or all.
  std::size_t count(float threshold) const;
  /// Selects all entries of acc that reach the threshold; below the bound by one more pass.
  void select(View<const float> acc, float threshold, SparseVector& selected) const;
  /// Selects the k largest, k <= max + 1; ties go to the lower index. Returns the smallest magnitude, 0 if there is
  /// none.
  float select_largest(std::size_t k, SparseVector& selected);

 private:
  std::size_t numel_;
  kernels::PassResult pass_;
  kernels::MagnitudeScratch scratch_;
  const SparseVector* entries_ = &pass_.selected;  // or the scratch's, collected again
  float bound_ = 0;
};

/// The counts that a search accepts, and its moves for the others.
struct ThresholdSearchRules {
  double too_few = 0;       ///< fewer than this times k entries: the threshold is multiplied by `lower`
  double too_many = 0;      ///< more than this times k entries: multiplied by `raise`, or the search ends
  float lower = 1;          ///< below 1
  float raise = 1;          ///< above 1; unused if `stop_above`
  bool stop_above = false;  ///< too many ends the search: the caller chooses among them
  int max_changes = 10;     ///< the search ends after this many, whatever the count
};

/// The end of a search.
struct ThresholdSearchResult {
  float threshold = 0;
  int changes = 0;
};

/// Starts at `threshold`, for which `candidates` are the entries of `acc` that reach it. Ends at the threshold it
/// returns, with the entries that reach that one in `selected`. It makes a pass over acc only when the threshold falls
/// below every one before. A threshold of 0 is not changed: it selects everything that there is.
/// @param candidates may be swapped with `selected`, as `wider`, which has the entries of further passes.
ThresholdSearchResult search_threshold(const ThresholdSearchRules& rules, View<const float> acc, std::size_t k,
                                       float threshold, SparseVector& candidates, SparseVector& wider,
                                       SparseVector& selected);

}  // namespace dragonn::compress

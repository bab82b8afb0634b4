// SPDX-License-Identifier: MIT
/// Buckets: the slices of the flat gradient that are exchanged one after the other.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/parameter.h"

namespace dragonn::exchange {

/// A slice of the arena with one memory, one sparsifier and one collective.
struct Bucket {
  std::string name = {};  ///< name of its only tensor, or "stage1.conv1.weight..fc.weight"
  std::size_t offset = 0;
  std::size_t size = 0;
  std::vector<Shape> tensors = {};  ///< one after the other
  bool sparse = false;              ///< may be sparsified; otherwise always exchanged dense
  std::size_t fragment = 0;         ///< of its tensors (fragments_of)
};

/// The buckets that are sparsified at one density, of those that may be.
struct BucketChoice {
  double density = 1;           ///< as the density schedule gives it
  std::vector<bool> is_sparse;  ///< by bucket
};

struct BucketRules {
  enum class Grouping { kTensor, kModel, kBytes };
  Grouping grouping = Grouping::kTensor;
  std::size_t bytes = 0;         ///< with kBytes: a bucket closes before it would grow beyond this
  bool compress = true;          ///< false: everything is exchanged dense
  bool include_vectors = false;  ///< biases and normalization are sparsified too
  std::size_t minimum_size = 0;  ///< tensors of fewer elements are exchanged dense (never with kModel)
  std::size_t fragments = 1;     ///< neither a bucket nor a group has tensors of two of them
  /// The number of buckets into which, with kModel, the sparsified tensors of a fragment are cut, or fewer: their sizes
  /// are as equal as whole tensors allow.
  std::size_t pieces = 1;
};

/// A run of buckets whose exchanges are one: [begin, end).
struct BucketGroup {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The rules by which buckets are grouped.
struct FusionRules {
  std::size_t bytes = 0;  ///< a group closes before it would grow beyond this; 0: each bucket by itself
  /// Groups are exchanged while backward computes the gradients of the next ones: none is larger than this share of the
  /// arena, unless a single bucket is.
  bool overlaps = false;
  static constexpr double kOverlappedShare = 0.25;
};

/// The largest bucket of dense neighbours, in bytes: one message for many small tensors.
inline constexpr std::size_t kDenseBucketBytes = std::size_t{25} << 20;

/// Returns the fragment of every parameter, by id. A layer is a run of parameters, in the order of declaration, whose
/// names agree up to their first dot: a block of a transformer, a stage of a convolutional network, a linear layer.
/// Layer i is in fragment i modulo `fragments` (Streaming DiLoCo's strided pattern). @throws ConfigError if there are
/// fewer layers than fragments.
std::vector<std::size_t> fragments_of(const ParameterArena& arena, std::size_t fragments);

/// Cuts the arena into buckets without gaps, in layout order (the order in which backward finishes the gradients).
/// @throws ConfigError if a bucket would have 2^32 - 1 elements or more (indices are 32 bits).
std::vector<Bucket> make_buckets(const ParameterArena& arena, const BucketRules& rules);

/// Cuts the buckets into groups, in their order, by their sizes alone.
std::vector<BucketGroup> make_groups(std::span<const Bucket> buckets, const FusionRules& rules);
/// Deals the buckets out to `places`: the larger ones first, each to the place with the fewest elements of its
/// fragment. Returns the place of each. It does not depend on the groups, which may change between runs.
std::vector<int> deal_out(std::span<const Bucket> buckets, int places);
/// Returns the slices of the arena that groups cover, as if each were a bucket.
std::vector<Bucket> group_slices(const std::vector<Bucket>& buckets, const std::vector<BucketGroup>& groups);

}  // namespace dragonn::exchange

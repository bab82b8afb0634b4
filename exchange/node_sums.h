// SPDX-License-Identifier: MIT
/// NodeSums: the level of an exchange that is inside a node. Each bucket has one worker of every node, which gets the
/// bucket's gradients of all workers there, exchanges their mean with its counterparts on other nodes, and shares out
/// the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/nodes.h"
#include "comm/sparse/sparse_collective.h"
#include "comm/subgroup.h"
#include "exchange/bucket_sum.h"
#include "exchange/buckets.h"

namespace dragonn::exchange {

/// A bucket of an exchange, and what this rank knows or learns of its sum.
struct SharedSum {
  std::size_t bucket = 0;
  BucketSum* sum = nullptr;  ///< given where the bucket is this rank's; otherwise its divisor is received
  comm::SparseReduction* received = nullptr;  ///< takes the sum of another worker's bucket
};

/// One rank's part in the sums inside its node. Buckets are dealt out to the places that every node has (deal_out), so
/// the workers of a place have the same buckets; workers beyond the smallest node's have none, and take part in the
/// sums. Gradients and lists go through host memory. All messages are counted under Phase::kNode.
class NodeSums {
 public:
  /// @param whole the group of all ranks, whose nodes these are; outlives this object.
  NodeSums(const comm::Nodes& nodes, std::span<const Bucket> buckets, const Device& gradients,
           comm::Communicator& whole);

  const comm::Nodes& nodes() const { return nodes_; }
  /// The workers of this node.
  comm::Communicator& inside() { return inside_; }
  /// The workers of this place on all nodes, this rank's number being that of its node; only this rank if it has no
  /// buckets.
  comm::Communicator& across() { return across_; }
  /// Returns whether a bucket is this rank's.
  bool has(std::size_t bucket) const { return place_of_[bucket] == inside_.rank(); }

  /// Collective in the node. Sums the gradients of neighbouring buckets, each on the worker that has the bucket, in the
  /// order of the workers. Each worker sends all but its own buckets, W-1 messages. @param gradients of this rank, by
  /// bucket of the group.  @param scale factor on them.
  void hand_over(const BucketGroup& group, std::span<const View<const float>> gradients, float scale);
  /// The sum of the last hand_over() of one of this rank's buckets, on the gradients' device.
  View<const float> sum(std::size_t bucket) const {
    return sums_.view().subview(place_in_sums_[bucket], sizes_[bucket]);
  }
  /// The factor that makes these sums means over nodes of equal weight for every worker of the group: their mean over
  /// nodes is the mean gradient of all workers. 1 / W if every node has W workers.
  float share() const { return share_; }

  /// Collective in the node. Gathers the results of these buckets on all its workers, in three rings: 16 bytes for each
  /// bucket; indices; values, all of them where a sum is dense. @throws CommError if what comes is no sum of a bucket.
  void share_out(std::span<const SharedSum> sums);

 private:
  struct Header {
    std::uint64_t values = 0;
    float divisor = 1;
    std::uint32_t is_dense = 0;

    std::uint64_t indices() const { return is_dense != 0 ? 0 : values; }
  };

  /// Gathers parts of these sizes, in elements; this rank's lies at its place in `all`.
  template <class T>
  void gather(std::span<const std::size_t> sizes, View<T> all);
  /// Checks what worker `place` says of its bucket and the bucket's indices.
  void check(int place, std::size_t bucket, const Header& header, std::span<const std::uint32_t> indices) const;

  comm::Nodes nodes_;
  comm::Subgroup inside_, across_;
  std::vector<int> place_of_;                   // by bucket
  std::vector<std::size_t> sizes_;              // by bucket
  std::vector<std::size_t> place_in_sums_;      // by bucket of this rank
  Buffer<float> sums_;                          // of this rank's buckets
  Buffer<float> outgoing_, incoming_, summed_;  // of a group: for all workers, of one of them, their sum
  std::vector<comm::Request> sending_;
  // The next three are of all workers' buckets, worker by worker.
  std::vector<Header> headers_;
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
  float share_ = 1;
};

}  // namespace dragonn::exchange

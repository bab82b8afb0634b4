// SPDX-License-Identifier: MIT
/// OkTopkSteps: what the collective oktopk does with lists of entries, where these live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// One implementation for messages of host memory, one for a DeviceTransport: the same results. Those that take a
/// communicator are collective.
class OkTopkSteps {
 public:
  virtual ~OkTopkSteps() = default;

  /// selected.indices[place].
  virtual std::uint32_t index_at(const SparseVector& selected, std::size_t place) = 0;
  /// Sums what all ranks selected in this rank's region; the sums stay here. @param out decode_seconds is added to.
  virtual void reduce(Communicator& communicator, const SparseVector& selected, std::span<const std::uint64_t> regions,
                      SparseReduction& out) = 0;
  /// all <- the sums of all ranks that reach the threshold and are not zero, ascending; balanced first where the ranks
  /// have very different numbers of them (BalancedGather). @param hollow `all` gets its size alone.
  virtual void gather_above(Communicator& communicator, float threshold, double balance_above, bool hollow,
                            SparseVector& all) = 0;
  /// Of this rank's sums those that were gathered last.
  virtual const SparseVector& own_part() const = 0;
  /// Entries that each rank brought to the last gather.
  virtual const std::vector<std::uint64_t>& counts() const = 0;
  /// As kernels::keep_largest.
  virtual float keep_largest(const SparseVector& entries, std::size_t k, SparseVector& kept) = 0;
  /// common <- the indices that are in both.
  virtual void common_indices(const SparseVector& a, const SparseVector& b, Buffer<std::uint32_t>& common) = 0;
};

/// @param in_flight messages on their way at a time (SliceExchange).
std::unique_ptr<OkTopkSteps> make_host_oktopk_steps(std::size_t numel, std::size_t in_flight);
std::unique_ptr<OkTopkSteps> make_device_oktopk_steps(std::size_t numel, const Device& device);

}  // namespace dragonn::comm

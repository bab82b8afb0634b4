// SPDX-License-Identifier: MIT
/// CooGather: every rank gets a list of entries from every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/sparse/coo.h"

namespace dragonn::comm {

/// Messages of the sizes that all ranks know, back to back in rank order.
class CooGather {
 public:
  /// Makes room for slots[r] entries of each rank r. Returns this rank's message, for the caller to fill.
  std::span<std::byte> lay_out(int rank, std::span<const std::uint64_t> slots);
  /// Collective, of what was laid out. With `equal` slots 2k(P-1) words are sent; otherwise all lists but the next
  /// rank's.
  void run(Communicator& communicator, bool equal);
  /// Collective. Both of these for lists of counts[r] entries.
  void run(Communicator& communicator, const CooView& mine, std::span<const std::uint64_t> counts);

  std::size_t ranks() const { return sizes_.size(); }
  CooView list(std::size_t rank) const;
  /// The lists one behind the other; `all` is overwritten.
  void concatenate(SparseVector& all) const;

 private:
  std::vector<std::size_t> sizes_;    // bytes by rank
  std::vector<std::size_t> offsets_;  // bytes by rank
  Buffer<std::byte> gathered_;
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// Slices: a swap in which every rank sends every other rank a slice of its list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/sparse/list_verbs.h"
#include "core/buffer.h"
#include "core/settings.h"

namespace dragonn::comm {

/// Rotates destinations (Ok-Topk, section 3.1.1): in step s rank w sends to w + s and receives from w - s, so that no
/// two ranks send to the same rank at once.
class Slices {
 public:
  /// Plans that all entries of a region go to the region's owner.
  /// @param indices those of `mine`, in host memory.  @param regions P + 1 non-decreasing boundaries from 0 to numel,
  /// the same on all ranks.  @param counts entries of each rank's list.
  void plan_regions(int rank, const ListView& mine, std::span<const std::uint32_t> indices,
                    std::span<const std::uint64_t> regions, std::span<const std::uint64_t> counts);
  /// Plans that the lists of all ranks, one after the other, are cut anew into P blocks whose sizes differ by at most
  /// one. balanced[r] <- the entries of block r.  @param regions as in plan_regions; rank r's list is of region r.
  /// @param counts entries of each rank's list.
  void plan_blocks(int rank, const ListView& mine, std::span<const std::uint64_t> regions,
                   std::span<const std::uint64_t> counts, std::vector<std::uint64_t>& balanced);

  /// Returns the planned swap; `mine` must stay until it is done.
  SwapVerb verb(std::size_t in_flight) { return {outgoing_, incoming_, in_flight}; }

  /// Returns the received slices, the own one included, in the order own, w - 1, w - 2, ... of the ranks.
  std::span<const ListView> in_rotation();
  /// Returns them in rank order.
  std::span<const ListView> in_rank_order();
  /// Returns the whole list as it left: the own slice as it is, the others as their codes decode. For a lossy codec.
  ListView sent();

 private:
  /// Plans from bounds_, the largest slices to each rank, and the limits of those from each rank.
  void plan(int rank, const ListView& mine);

  std::size_t rank_ = 0;
  std::vector<std::size_t> bounds_;
  std::vector<std::uint64_t> max_to_;  // entries at most, by rank
  std::vector<ListBounds> from_;       // by rank
  ListView mine_, own_;
  std::vector<SwapVerb::Outgoing> outgoing_;
  std::vector<SwapVerb::Incoming> incoming_;
  std::vector<ListView> lists_;
  Buffer<float> sent_;  // values of mine_
};

/// Declares the setting `in_flight` of the collectives that exchange slices.
SettingSpec in_flight_setting();
std::size_t in_flight(const Settings& settings);

}  // namespace dragonn::comm

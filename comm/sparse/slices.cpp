// SPDX-License-Identifier: MIT
#include "comm/sparse/slices.h"

#include <algorithm>
#include <numeric>

#include "comm/blocks.h"

namespace dragonn::comm {

void Slices::plan_regions(int rank, const ListView& mine, std::span<const std::uint32_t> indices,
                          std::span<const std::uint64_t> regions, std::span<const std::uint64_t> counts) {
  const auto me = static_cast<std::size_t>(rank);
  const auto region_size = [&](std::size_t owner) { return regions[owner + 1] - regions[owner]; };
  bounds_.resize(counts.size() + 1);
  max_to_.resize(counts.size());
  from_.resize(counts.size());
  for (std::size_t other = 0; other < counts.size(); ++other) {
    bounds_[other] = static_cast<std::size_t>(std::ranges::lower_bound(indices, regions[other]) - indices.begin());
    max_to_[other] = std::min(counts[me], region_size(other));
    from_[other] = {.max = std::min(counts[other], region_size(me)), .begin = regions[me], .end = regions[me + 1]};
  }
  bounds_[counts.size()] = mine.size();
  plan(rank, mine);
}

void Slices::plan_blocks(int rank, const ListView& mine, std::span<const std::uint64_t> regions,
                         std::span<const std::uint64_t> counts, std::vector<std::uint64_t>& balanced) {
  const std::size_t ranks = counts.size();
  const auto me = static_cast<std::size_t>(rank);
  const auto total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const Block own = block(total, ranks, me);
  bounds_.resize(ranks + 1);
  max_to_.resize(ranks);
  from_.resize(ranks);
  balanced.resize(ranks);
  std::uint64_t first = 0;
  for (std::size_t other = 0; other < ranks; ++other) {
    // The list of rank `other` is [first, last) of the whole sequence.
    const std::uint64_t last = first + counts[other];
    const std::uint64_t slice =
        std::clamp<std::uint64_t>(own.end, first, last) - std::clamp<std::uint64_t>(own.begin, first, last);
    from_[other] = {slice, slice, regions[other], regions[other + 1]};
    if (other == me) {
      for (std::size_t target = 0; target <= ranks; ++target)
        bounds_[target] = std::clamp<std::uint64_t>(block_begin(total, ranks, target), first, last) - first;
    }
    balanced[other] = block(total, ranks, other).size();
    first = last;
  }
  for (std::size_t target = 0; target < ranks; ++target) max_to_[target] = bounds_[target + 1] - bounds_[target];
  plan(rank, mine);
}

void Slices::plan(int rank, const ListView& mine) {
  const std::size_t ranks = max_to_.size();
  rank_ = static_cast<std::size_t>(rank);
  mine_ = mine;
  own_ = mine.slice(bounds_[rank_], bounds_[rank_ + 1]);
  outgoing_.clear();
  incoming_.clear();
  for (std::size_t step = 1; step < ranks; ++step) {
    const std::size_t to = (rank_ + step) % ranks, from = (rank_ + ranks - step) % ranks;
    outgoing_.push_back({static_cast<int>(to), max_to_[to], mine.slice(bounds_[to], bounds_[to + 1])});
    incoming_.push_back({static_cast<int>(from), from_[from], mine.slice(0, 0)});
  }
}

std::span<const ListView> Slices::in_rotation() {
  lists_.clear();
  lists_.push_back(own_);
  for (const SwapVerb::Incoming& incoming : incoming_) lists_.push_back(incoming.list);
  return lists_;
}

std::span<const ListView> Slices::in_rank_order() {
  lists_.assign(max_to_.size(), own_);
  for (const SwapVerb::Incoming& incoming : incoming_)
    lists_[static_cast<std::size_t>(incoming.source)] = incoming.list;
  return lists_;
}

ListView Slices::sent() {
  resize_with_slack(sent_, mine_.size());
  const auto keep = [&](std::size_t begin, const ListView& list) {
    std::ranges::copy(list.values.host(), sent_.data() + begin);
  };
  keep(bounds_[rank_], own_);
  for (const SwapVerb::Outgoing& outgoing : outgoing_) {
    // An empty slice is not sent.
    if (outgoing.list.size() > 0) keep(bounds_[static_cast<std::size_t>(outgoing.destination)], outgoing.sent);
  }
  return {mine_.indices, std::as_const(sent_).view()};
}

SettingSpec in_flight_setting() {
  return SettingSpec::integer("in_flight", 4, "messages in flight at once while regions are exchanged", 1, 1e6);
}

std::size_t in_flight(const Settings& settings) {
  return static_cast<std::size_t>(settings.integer("in_flight"));
}

}  // namespace dragonn::comm

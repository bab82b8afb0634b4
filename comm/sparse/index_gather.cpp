// SPDX-License-Identifier: MIT
#include "comm/sparse/index_gather.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "comm/room.h"

namespace dragonn::comm {
namespace {

/// No index: a bucket holds fewer than 2^32 - 1 elements. In the first slot it says that its sender saw NaN or
/// infinity, and sends nothing.
constexpr std::uint32_t kNonFiniteSlot = kEmptySlot - 1;

}  // namespace

void IndexGather::run(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
                      Layout layout, SparseReduction& out) {
  slots_.resize(out.selected_counts.size());
  // Fixed messages of no slot could not carry the flag.
  const std::size_t fixed_slots = std::min(context.k, numel_);
  if (layout == Layout::kFixed && fixed_slots == 0) layout = Layout::kUnpadded;
  if (layout == Layout::kFixed) {
    DRAGONN_CHECK(selected.size() <= fixed_slots, "{} selected entries do not fit a fixed message of {}",
                  selected.size(), fixed_slots);
    std::ranges::fill(slots_, fixed_slots);
  } else {
    out.non_finite = counts_.run(communicator, selected.size(), context.non_finite, out.selected_counts);
    if (out.non_finite) return;
    std::ranges::copy(out.selected_counts, slots_.begin());
    if (layout == Layout::kPadded) std::ranges::fill(slots_, std::ranges::max(out.selected_counts));
  }
  gather(communicator, context, selected.indices.host(), layout, slots_);
  unite(slots_, out);
}

void IndexGather::gather(Communicator& communicator, const ReduceContext& context, std::span<const std::uint32_t> mine,
                         Layout layout, std::span<const std::uint64_t> slots) {
  const auto me = static_cast<std::size_t>(communicator.rank());
  resize_with_room(gathered_, std::accumulate(slots.begin(), slots.end(), std::size_t{0}));
  const auto begin = std::accumulate(slots.begin(), slots.begin() + communicator.rank(), std::size_t{0});
  const std::span<std::uint32_t> place = gathered_.host().subspan(begin, slots[me]);
  if (context.non_finite) {
    std::ranges::fill(place, kEmptySlot);
    place[0] = kNonFiniteSlot;  // only fixed messages get here, and they have a slot
  } else {
    std::ranges::copy(mine, place.begin());
    std::ranges::fill(place.subspan(mine.size()), kEmptySlot);
  }
  const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
  const auto outgoing = Communicator::as_bytes(std::span<const std::uint32_t>(place));
  const auto all = Communicator::as_writable_bytes(gathered_.host());
  if (layout != Layout::kUnpadded) return communicator.allgather(outgoing, all);
  sizes_.resize(slots.size());
  std::ranges::transform(slots, sizes_.begin(), [](std::uint64_t count) { return count * sizeof(std::uint32_t); });
  communicator.allgather_variable(outgoing, sizes_, all);
}

void IndexGather::unite(std::span<const std::uint64_t> slots, SparseReduction& out) {
  const std::size_t longest = std::ranges::max(slots);
  if (longest > zeros_.size()) {
    resize_with_room(zeros_, longest, numel_);
    std::ranges::fill(zeros_.host(), 0.0f);
  }
  std::size_t begin = 0;
  for (std::size_t rank = 0; rank < slots.size(); ++rank) {
    const auto list = std::span<const std::uint32_t>(gathered_.host()).subspan(begin, slots[rank]);
    begin += slots[rank];
    if (!list.empty() && list[0] == kNonFiniteSlot) {
      out.non_finite = true;
      continue;
    }
    out.selected_counts[rank] = decoder_.add({list, std::span<const float>(zeros_.host()).first(list.size())});
  }
  decoder_.finish(out.sum);
  if (out.non_finite) out.sum.clear();
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/sparse/coo_gather.h"

#include <algorithm>

#include "comm/room.h"

namespace dragonn::comm {

std::span<std::byte> CooGather::lay_out(int rank, std::span<const std::uint64_t> slots) {
  sizes_.resize(slots.size());
  offsets_.resize(slots.size());
  std::size_t total = 0;
  for (std::size_t r = 0; r < slots.size(); ++r) {
    sizes_[r] = coo_bytes(slots[r]);
    offsets_[r] = total;
    total += sizes_[r];
  }
  resize_with_room(gathered_, total);
  const auto me = static_cast<std::size_t>(rank);
  return gathered_.host().subspan(offsets_[me], sizes_[me]);
}

void CooGather::run(Communicator& communicator, bool equal) {
  const auto me = static_cast<std::size_t>(communicator.rank());
  const std::span<const std::byte> mine = gathered_.host().subspan(offsets_[me], sizes_[me]);
  const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
  if (equal) {
    communicator.allgather(mine, gathered_.view());
  } else {
    communicator.allgather_variable(mine, sizes_, gathered_.view());
  }
}

void CooGather::run(Communicator& communicator, const CooView& mine, std::span<const std::uint64_t> counts) {
  const std::span<std::byte> message = lay_out(communicator.rank(), counts);
  if (!communicator.is_hollow()) pack_coo(mine, message);
  run(communicator, /*equal=*/false);
}

CooView CooGather::list(std::size_t rank) const {
  return view_coo(gathered_.host().subspan(offsets_[rank], sizes_[rank]));
}

void CooGather::concatenate(SparseVector& all) const {
  resize_with_room(all, gathered_.size() / SparseVector::kEntryBytes);
  std::size_t begin = 0;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const CooView entries = list(rank);
    std::ranges::copy(entries.indices, all.indices.data() + begin);
    std::ranges::copy(entries.values, all.values.data() + begin);
    begin += entries.size();
  }
}

}  // namespace dragonn::comm

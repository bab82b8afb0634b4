// SPDX-License-Identifier: MIT
#include "comm/sparse/slice_exchange.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "comm/room.h"
#include "comm/tags.h"

namespace dragonn::comm {
namespace {

CooView slice(const CooView& entries, std::size_t begin, std::size_t end) {
  return {entries.indices.subspan(begin, end - begin), entries.values.subspan(begin, end - begin)};
}

std::size_t rank_after(const Communicator& communicator, std::size_t steps) {
  return (static_cast<std::size_t>(communicator.rank()) + steps) % static_cast<std::size_t>(communicator.size());
}

std::size_t rank_before(const Communicator& communicator, std::size_t steps) {
  return rank_after(communicator, static_cast<std::size_t>(communicator.size()) - steps);
}

}  // namespace

void SliceExchange::run(Communicator& communicator, const CooView& mine, const Plan& plan) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto me = static_cast<std::size_t>(communicator.rank());
  received_.assign(ranks, {});
  received_[me] = slice(mine, plan.bounds[me], plan.bounds[me + 1]);
  // Room for all that may come; only pages that messages really fill are ever touched.
  incoming_bytes_ = 0;
  resize_with_room(incoming_, coo_bytes(std::accumulate(plan.most_from.begin(), plan.most_from.end(), std::size_t{0})));
  const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
  for (std::size_t step = 1; step < std::min(ranks, in_flight_ + 1); ++step) start(communicator, mine, plan, step);
  for (std::size_t step = 1; step < ranks; ++step) {
    finish(communicator, plan, step);
    if (step + in_flight_ < ranks) start(communicator, mine, plan, step + in_flight_);
  }
}

void SliceExchange::start(Communicator& communicator, const CooView& mine, const Plan& plan, std::size_t step) {
  Slot& slot = slots_[step % in_flight_];
  const std::size_t source = rank_before(communicator, step);
  if (plan.most_from[source] > 0) {
    resize_with_room(slot.incoming, coo_bytes(plan.most_from[source]));
    slot.receive = communicator.irecv(static_cast<int>(source), kTagSlices, slot.incoming.view());
  }
  const std::size_t destination = rank_after(communicator, step);
  if (plan.most_to[destination] > 0) {
    const CooView entries = slice(mine, plan.bounds[destination], plan.bounds[destination + 1]);
    resize_with_room(slot.outgoing, coo_bytes(plan.most_to[destination]));
    slot.outgoing.truncate(coo_bytes(entries.size()));
    pack_coo(entries, slot.outgoing.host());
    slot.send =
        communicator.isend(static_cast<int>(destination), kTagSlices, std::span<const std::byte>(slot.outgoing.host()));
  }
}

void SliceExchange::finish(Communicator& communicator, const Plan& plan, std::size_t step) {
  Slot& slot = slots_[step % in_flight_];
  const std::size_t source = rank_before(communicator, step);
  if (plan.most_from[source] > 0) {
    const std::size_t bytes = communicator.wait(slot.receive);
    if (bytes % SparseVector::kEntryBytes != 0) {
      throw CommError(fmt::format("rank {} received {} bytes from rank {}: not a multiple of an entry's {} bytes",
                                  communicator.rank(), bytes, source, SparseVector::kEntryBytes));
    }
    const std::span<std::byte> place = incoming_.host().subspan(incoming_bytes_, bytes);
    std::ranges::copy(slot.incoming.host().first(bytes), place.begin());
    received_[source] = view_coo(place);
    incoming_bytes_ += bytes;
  }
  if (plan.most_to[rank_after(communicator, step)] > 0) communicator.wait(slot.send);
}

SettingSpec in_flight_setting() {
  return {.name = "in_flight",
          .default_value = std::int64_t{4},
          .help = "messages in flight at once while regions are exchanged",
          .minimum = 1,
          .maximum = 1e6};
}

std::size_t in_flight(const Settings& settings) {
  return static_cast<std::size_t>(settings.integer("in_flight"));
}

}  // namespace dragonn::comm

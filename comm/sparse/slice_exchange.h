// SPDX-License-Identifier: MIT
/// SliceExchange: every rank sends every other rank a slice of its entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/sparse/coo.h"
#include "core/settings.h"

namespace dragonn::comm {

/// Destination rotation (Ok-Topk, section 3.1.1): in step s rank w sends to w + s and receives from w - s, so that no
/// rank is everybody's destination at once. A window of steps is in flight; a message that has come is moved out of the
/// way while the next ones travel.
class SliceExchange {
 public:
  explicit SliceExchange(std::size_t in_flight) : in_flight_(in_flight), slots_(in_flight) {}

  /// What goes where. Sizes are bounds that both sides know; a message says its size itself.
  struct Plan {
    std::span<const std::size_t> bounds;       ///< entries [bounds[d], bounds[d + 1]) go to rank d; P + 1 of them
    std::span<const std::uint64_t> most_to;    ///< entries to rank d at most; 0: no message
    std::span<const std::uint64_t> most_from;  ///< entries from rank s at most; 0: no message
  };

  /// Collective, counted under Phase::kExchange. `mine` must live as long as `from` is used.
  /// @throws CommError if a message is larger than announced, or no list of entries.
  void run(Communicator& communicator, const CooView& mine, const Plan& plan);
  /// What came from rank `source`; the own slice for the own rank.
  const CooView& from(std::size_t source) const { return received_[source]; }

 private:
  /// A step on its way.
  struct Slot {
    Buffer<std::byte> incoming;
    Buffer<std::byte> outgoing;
    Request receive;
    Request send;
  };
  void start(Communicator& communicator, const CooView& mine, const Plan& plan, std::size_t step);
  void finish(Communicator& communicator, const Plan& plan, std::size_t step);

  std::size_t in_flight_;
  std::vector<Slot> slots_;
  std::vector<CooView> received_;
  Buffer<std::byte> incoming_;
  std::size_t incoming_bytes_ = 0;
};

/// The setting `in_flight` of the collectives that exchange slices.
SettingSpec in_flight_setting();
std::size_t in_flight(const Settings& settings);

}  // namespace dragonn::comm

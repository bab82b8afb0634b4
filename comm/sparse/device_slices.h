// SPDX-License-Identifier: MIT
/// DeviceSlices: every rank sends every other rank a slice of its entries, from GPU to GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/device_transport.h"
#include "core/sparse_vector.h"

namespace dragonn::comm {

/// SliceExchange over a DeviceTransport: all messages at the same time. The sizes are a header of the communicator.
class DeviceSlices {
 public:
  /// Collective. Entries [bounds[d], bounds[d + 1]) of `mine` go to rank d; P + 1 bounds. P words of header to each
  /// other rank.
  void run(Communicator& communicator, const SparseVector& mine, std::span<const std::size_t> bounds);
  /// What came from rank `source`; the own slice for the own rank. Valid until the next run, as long as `mine` is.
  View<const std::uint32_t> indices_from(std::size_t source) const { return indices_[source]; }
  View<const float> values_from(std::size_t source) const { return values_[source]; }

 private:
  void tell_sizes(Communicator& communicator, std::span<const std::size_t> bounds);

  std::vector<std::uint32_t> sizes_;  // [from][to]
  std::vector<SparseVector> lists_;   // by source
  std::vector<View<const std::uint32_t>> indices_;
  std::vector<View<const float>> values_;
  std::vector<OutgoingBytes> outgoing_;
  std::vector<IncomingBytes> incoming_;
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// List verbs: the operations that a sparse collective can request from the group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "comm/communicator.h"
#include "core/sparse_vector.h"

namespace dragonn::comm {

// Lists, and the memory that is read or written with them, are where messages are: in host memory, or on the device of
// a DeviceTransport. Spans are host memory. Everything that a verb names must stay until it is done. Bytes are those
// that a rank sends for one bucket at P ranks; if several buckets share a message whose parts have sizes that the
// receiver does not know, each part costs a word more.

//
// The transport checks all data from other ranks before a verb ends: lists ascend, have no more entries than they may,
// and none outside of the bucket; counts are at most the bucket's size. So a collective may index by them. Values may
// be any floats. Lists between GPUs are not read by the host: only their sizes are checked
// (comm/sparse/device_lists.cpp).

/// The limits of a list from another rank: `min` to `max` entries, whose indices are in [begin, end).
struct ListBounds {
  std::size_t min = 0;
  std::size_t max = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Gathers a count: all[r] <- rank r's `mine`. A header: 4 (P-1) bytes.
struct CountsVerb {
  std::uint64_t mine = 0;
  std::span<std::uint64_t> all;
  std::size_t numel = 0;  ///< no count is larger
};

/// Sums the ranks' proposals of boundaries: values <- sums over the ranks. A header.
struct SumBoundariesVerb {
  std::span<std::uint64_t> values;  ///< non-decreasing on each rank
  std::size_t numel = 0;            ///< no boundary is larger
};

/// Sums numbers in rank order: values <- sums over the ranks. Counted as metrics: not a method's own traffic.
struct SumMetricsVerb {
  std::span<double> values;
};

/// Gathers lists: lists[r] <- rank r's `mine`, in memory of the transport, valid until the bucket's next verb. 8 bytes
/// an entry, 4 if it has no values, to each other rank, unless they are coded; codes are decoded while others travel.
/// The own list is what its code decodes to, as the others are.
struct GatherListsVerb {
  ListView mine;
  std::span<const std::uint64_t> slots;  ///< by rank: entries of its message
  std::span<ListView> lists;             ///< by rank, without the empty slots that fill up a message
  std::size_t numel = 0;
  /// The P + 1 boundaries: the indices of rank r's list are in [regions[r], regions[r + 1]). Empty: in [0, numel).
  std::span<const std::uint64_t> regions = {};
  bool has_values = true;
  /// Whether all slots are the same number, and lists may be shorter: an allgather, else one of varying sizes.
  bool equal = false;
  GatherRoute route = GatherRoute::kRing;  ///< of messages of varying sizes in host memory

  /// Returns the limits of a rank's list.
  ListBounds bounds(std::size_t rank) const {
    const bool whole = regions.empty();
    return {equal ? 0 : slots[rank], slots[rank], whole ? 0 : regions[rank], whole ? numel : regions[rank + 1]};
  }
};

/// Returns the bytes of elements on any device.
template <class T>
View<std::byte> bytes_of(View<T> elements) {
  return {reinterpret_cast<std::byte*>(elements.data()), elements.size() * sizeof(T), elements.device()};
}
template <class T>
View<const std::byte> bytes_of(View<const T> elements) {
  return {reinterpret_cast<const std::byte*>(elements.data()), elements.size() * sizeof(T), elements.device()};
}

/// Gathers the parts of a whole, in place: elements [bounds[r], bounds[r + 1]) come from rank r.
struct GatherPartsVerb {
  View<std::byte> whole;
  std::span<const std::uint64_t> bounds;
  std::size_t element = sizeof(float);  ///< bytes of one
  bool equal = false;                   ///< whether all parts are of one size: an allgather, else one of varying sizes
  GatherRoute route = GatherRoute::kRing;  ///< as of GatherListsVerb

  View<std::byte> part(std::size_t rank) const {
    return whole.subview(bounds[rank] * element, (bounds[rank + 1] - bounds[rank]) * element);
  }
};

/// Sums vectors: values <- sum over ranks, the same bits on all. A ring: 8 n (P-1)/P bytes in 2(P-1) messages.
struct AllreduceVerb {
  View<float> values;
  DenseAlgorithm algorithm = DenseAlgorithm::kRing;  ///< for messages in host memory
  /// Null: the sum is exact to float32. Otherwise partial sums travel in the transport's code of values if it carries
  /// sums, round a ring, and this gets what the rounding of this rank left behind, n floats; empty if nothing was
  /// rounded.
  Buffer<float>* remainder = nullptr;
  /// Gets, unless null, a byte for each float of the remainder: 1 where a partial sum that is not 0 was sent as 0.
  Buffer<std::uint8_t>* stayed = nullptr;
  View<const float> source = {};  ///< copied to `values` first, unless it is empty
};

/// Broadcasts indices: indices <- those of `root`; the number is the same on all ranks. A tree.
struct BroadcastIndicesVerb {
  int root = 0;
  View<std::uint32_t> indices;
  std::size_t numel = 0;

  ListBounds bounds() const { return {indices.size(), indices.size(), 0, numel}; }
};

/// Broadcasts a list: result <- the list of `root`, which alone knows its size. A tree. On the root, too, it is what
/// its code decodes to.
struct BroadcastListVerb {
  int root = 0;
  ListView mine;        ///< on the root
  std::size_t max = 0;  ///< at most this many entries, the same on all ranks
  SparseVector* result = nullptr;
  std::size_t numel = 0;

  ListBounds bounds() const { return {0, max, 0, numel}; }
};

/// Swaps lists between pairs of ranks. In step s a rank sends outgoing[s] while it receives incoming[s]. Both ends know
/// how many entries a list may have at most. Received lists are in memory of the transport, valid until the bucket's
/// next verb.
struct SwapVerb {
  struct Outgoing {
    int destination = 0;
    std::size_t max = 0;  ///< 0: no message
    ListView list;
    ListView sent = {};  ///< what the list's code decodes to, if that is something else; valid as received lists are
  };
  struct Incoming {
    int source = 0;
    ListBounds bounds;  ///< of at most 0 entries: no message
    ListView list;      ///< the received list
  };
  std::span<Outgoing> outgoing;
  std::span<Incoming> incoming;  ///< as many as outgoing
  std::size_t in_flight = 1;     ///< pending steps at once, if messages are host memory
};

using ListVerb = std::variant<CountsVerb, SumBoundariesVerb, SumMetricsVerb, GatherListsVerb, GatherPartsVerb,
                              AllreduceVerb, BroadcastIndicesVerb, BroadcastListVerb, SwapVerb>;

}  // namespace dragonn::comm

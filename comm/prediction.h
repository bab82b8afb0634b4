// SPDX-License-Identifier: MIT
/// Predictions: what an exchange costs by the formulas of docs/algorithms.md, section 3.
#pragma once

#include <cstddef>
#include <limits>

#include "comm/network_model.h"

namespace dragonn::comm {

/// Messages that follow one after the other, each at the price of the network's latency, and the bytes that they carry
/// together. What goes on beside them on other ranks, or the other way on the same rank, costs nothing.
struct Chain {
  double messages = 0;
  double bytes = 0;

  double seconds(const NetworkModel& network) const { return network.seconds(messages, bytes); }
  friend Chain operator+(const Chain& a, const Chain& b) { return {a.messages + b.messages, a.bytes + b.bytes}; }
  friend Chain operator*(double times, const Chain& chain) { return {times * chain.messages, times * chain.bytes}; }
};

/// What the ranks are expected to move in one exchange.
struct Prediction {
  double bytes_sent = 0;  ///< payload, mean over ranks
  Chain payload = {};     ///< on the way that takes longest
  Chain header = {};      ///< counts and flags, ahead of it; a rank sends as many bytes as are on the way
  /// Payload that no rank exceeds, sent or received, where the method promises that; else NaN.
  double most_bytes = std::numeric_limits<double>::quiet_NaN();

  Chain chain() const { return header + payload; }
  double seconds(const NetworkModel& network) const { return chain().seconds(network); }
  /// Adds an exchange that begins when this one has ended.
  Prediction& follow_with(const Prediction& next);
  /// Adds a bucket that travels in the messages of this exchange: bytes add up, and every message is sent once.
  Prediction& fuse_with(const Prediction& bucket);
};

// The collectives of Communicator on P ranks; one rank needs no message. L = ceil(log2 P).

/// 2(P-1) messages, 2(P-1)/P of `bytes`.
Chain ring_allreduce_chain(double bytes, int ranks);
/// At powers of two 2L messages and as many bytes as the ring. Else two messages of all `bytes` more: the fold.
Chain rabenseifner_chain(double bytes, int ranks);
/// A tree up and a tree down: 2 floor(log2 P) messages, 2L times `bytes`.
Chain tree_allreduce_chain(double bytes, int ranks);
/// `bytes` from each rank, as many from each: L messages at powers of two and for small blocks
/// (Communicator::kSmallBlock), else P-1.
Chain allgather_chain(double bytes, int ranks);
/// `bytes` from all ranks together, on a ring: P-1 messages, (P-1)/P of `bytes`.
Chain ring_gather_chain(double bytes, int ranks);
/// A tree: floor(log2 P) messages, L times `bytes`.
Chain broadcast_chain(double bytes, int ranks);
/// A rank has `bytes`, an equal part for each rank, and `in_flight` messages on their way at once.
Chain slices_chain(double bytes, int ranks, std::size_t in_flight);
/// A word of each rank to all.
Chain counts_chain(int ranks);
/// 16 bytes that all ranks agree on: L messages.
Chain agreed_word_chain(int ranks);

/// (P-1)/P: the share that leaves or reaches a rank where all have equal parts.
constexpr double share_of_others(int ranks) {
  return (ranks - 1.0) / ranks;
}

}  // namespace dragonn::comm

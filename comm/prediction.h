// SPDX-License-Identifier: MIT
/// Predictions: the cost of an exchange by the formulas of docs/algorithms.md, section 3.
#pragma once

#include <cstddef>
#include <limits>

#include "comm/network_model.h"

namespace dragonn::comm {

/// Messages that follow one after the other, each with the network's latency, and the bytes that they carry together.
/// Parallel transfers on other ranks, or in the other direction, cost nothing.
struct Chain {
  double messages = 0;
  double bytes = 0;
  /// The bytes that each rank gathers, where they decide on the number of messages: above Communicator::kSmallBlock, as
  /// in fused exchanges, there are `messages_if_large`. 0: the number is fixed.
  double block = 0;
  double messages_if_large = 0;

  double seconds(const NetworkModel& network) const { return network.seconds(messages, bytes); }
  friend Chain operator+(const Chain& a, const Chain& b) {
    // The larger block is the one that may grow beyond the bound.
    const Chain& larger = a.block >= b.block ? a : b;
    const Chain& other = a.block >= b.block ? b : a;
    return {a.messages + b.messages, a.bytes + b.bytes, larger.block, larger.messages_if_large + other.messages};
  }
  friend Chain operator*(double times, const Chain& chain) { return {times * chain.messages, times * chain.bytes}; }
};

/// The expected traffic of the ranks in one exchange.
struct Prediction {
  double bytes_sent = 0;  ///< payload, mean over ranks
  Chain payload = {};     ///< on the path that takes longest
  Chain header = {};      ///< counts and flags, ahead of it; a rank sends as many bytes as are on the path
  /// An upper bound of the payload that any rank sends or receives, if the method has one; else NaN.
  double max_bytes = std::numeric_limits<double>::quiet_NaN();

  Chain chain() const { return header + payload; }
  double seconds(const NetworkModel& network) const { return chain().seconds(network); }
  /// Adds an exchange that begins when this one has ended.
  Prediction& follow_with(const Prediction& next);
  /// Adds a bucket that is sent in the messages of this exchange: bytes add up, and every message is sent once.
  Prediction& fuse_with(const Prediction& bucket);
};

// The collectives of Communicator on P ranks; one rank needs no message. L = ceil(log2 P).

/// Returns the cost of a ring allreduce: 2(P-1) messages, 2(P-1)/P of `bytes`.
Chain ring_allreduce_chain(double bytes, int ranks);
/// Returns the cost of Rabenseifner's allreduce: at powers of two 2L messages and as many bytes as the ring; else two
/// messages of all `bytes` more, for the fold.
Chain rabenseifner_chain(double bytes, int ranks);
/// Returns the cost of a sum up a tree and a broadcast down: 2 floor(log2 P) messages, 2L times `bytes`.
Chain tree_allreduce_chain(double bytes, int ranks);
/// Returns the cost of gathering `bytes` from each rank: L messages at powers of two and for small blocks
/// (Communicator::kSmallBlock), else P-1.
Chain allgather_chain(double bytes, int ranks);
/// Returns the cost of gathering `bytes` from all ranks together on a ring: P-1 messages, (P-1)/P of `bytes`.
Chain ring_gather_chain(double bytes, int ranks);
/// Returns the cost of a broadcast by a tree: floor(log2 P) messages, L times `bytes`.
Chain broadcast_chain(double bytes, int ranks);
/// Returns the cost of sending each rank an equal part of `bytes`, with `in_flight` messages pending at once.
Chain slices_chain(double bytes, int ranks, std::size_t in_flight);
/// Returns the cost of gathering one word from each rank.
Chain counts_chain(int ranks);
/// Returns the cost of agreeing on 16 bytes: L messages.
Chain agreed_word_chain(int ranks);

/// Returns (P-1)/P: the share that leaves or reaches a rank if all have equal parts.
constexpr double share_of_others(int ranks) {
  return (ranks - 1.0) / ranks;
}

}  // namespace dragonn::comm

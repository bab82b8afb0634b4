// SPDX-License-Identifier: MIT
/// Predictions: the cost of an exchange by the formulas of docs/algorithms.md, section 3.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "comm/communicator.h"
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
  /// Returns the cost of both in the same messages: bytes add up, and every message is sent once.
  Chain fused_with(const Chain& other) const {
    Chain chain{std::max(messages, other.messages), bytes + other.bytes, block + other.block,
                std::max(messages_if_large, other.messages_if_large)};
    if (chain.block > Communicator::kSmallBlock) chain.messages = std::max(chain.messages, chain.messages_if_large);
    return chain;
  }
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
  Prediction& follow_with(const Prediction& next) {
    return *this = {bytes_sent + next.bytes_sent, payload + next.payload, header + next.header,
                    max_bytes + next.max_bytes};
  }
  /// Adds a bucket that is sent in the messages of this exchange.
  Prediction& fuse_with(const Prediction& bucket) {
    return *this = {bytes_sent + bucket.bytes_sent, payload.fused_with(bucket.payload),
                    header.fused_with(bucket.header), max_bytes + bucket.max_bytes};
  }
};

/// Returns (P-1)/P: the share that leaves or reaches a rank if all have equal parts.
constexpr double share_of_others(int ranks) {
  return (ranks - 1.0) / ranks;
}
/// Returns ceil(log2 P).
constexpr double rounds(int ranks) {
  return std::bit_width(static_cast<unsigned>(ranks) - 1);
}
/// Returns floor(log2 P): the hops from the root of a binomial tree to the last rank. If P is no power of two, the last
/// branch is short: fewer messages follow each other, but the root still handles one per round.
constexpr double depth(int ranks) {
  return std::bit_width(static_cast<unsigned>(ranks)) - 1.0;
}

// The cost of the collectives of Communicator on P ranks; one rank needs no message.

inline Chain ring_allreduce_chain(double bytes, int ranks) {
  return {2.0 * (ranks - 1), 2 * bytes * share_of_others(ranks)};
}
/// Rabenseifner's allreduce. Where P is no power of two, the fold needs two messages of all `bytes` more.
inline Chain rabenseifner_chain(double bytes, int ranks) {
  const auto participants = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  const Chain halving{2 * rounds(participants), 2 * bytes * share_of_others(participants)};
  return participants == ranks ? halving : halving + Chain{2, 2 * bytes};
}
/// A sum up a tree and a broadcast down.
inline Chain tree_allreduce_chain(double bytes, int ranks) {
  return {2 * depth(ranks), 2 * rounds(ranks) * bytes};
}
/// Gathering `bytes` from each rank.
inline Chain allgather_chain(double bytes, int ranks) {
  const double around = depth(ranks) == rounds(ranks) ? rounds(ranks) : ranks - 1.0;
  return {bytes <= Communicator::kSmallBlock ? rounds(ranks) : around, bytes * (ranks - 1), bytes, around};
}
/// Gathering `bytes` from all ranks together on a ring.
inline Chain ring_gather_chain(double bytes, int ranks) {
  return {ranks - 1.0, bytes * share_of_others(ranks)};
}
/// Gathering `bytes` from each rank, with a message from each to each other one.
inline Chain direct_gather_chain(double bytes, int ranks) {
  return {ranks > 1 ? 1.0 : 0.0, bytes * (ranks - 1)};
}
inline Chain broadcast_chain(double bytes, int ranks) {
  return {depth(ranks), rounds(ranks) * bytes};
}
/// Sending each rank an equal part of `bytes`, with `in_flight` messages pending at once.
inline Chain slices_chain(double bytes, int ranks, std::size_t in_flight) {
  return {std::ceil((ranks - 1.0) / static_cast<double>(in_flight)), bytes * share_of_others(ranks)};
}
/// Gathering one word from each rank.
inline Chain counts_chain(int ranks) {
  return allgather_chain(sizeof(std::uint32_t), ranks);
}
/// Agreeing on 16 bytes.
inline Chain agreed_word_chain(int ranks) {
  return {rounds(ranks), 16 * rounds(ranks)};
}

}  // namespace dragonn::comm

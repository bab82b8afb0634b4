// SPDX-License-Identifier: MIT
#include "comm/prediction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "comm/communicator.h"

namespace dragonn::comm {
namespace {

unsigned unsigned_of(int ranks) {
  return static_cast<unsigned>(ranks);
}

/// Returns ceil(log2 P).
double rounds(int ranks) {
  return std::bit_width(unsigned_of(ranks) - 1);
}

/// Returns the hops from the root of a binomial tree to the last rank. If P is no power of two, the last branch is
/// short: fewer messages follow each other, but the root still handles one per round.
double depth(int ranks) {
  return std::bit_width(unsigned_of(ranks)) - 1.0;
}

Chain fused(const Chain& a, const Chain& b) {
  const double block = a.block + b.block;
  Chain chain{std::max(a.messages, b.messages), a.bytes + b.bytes, block,
              std::max(a.messages_if_large, b.messages_if_large)};
  if (block > Communicator::kSmallBlock) chain.messages = std::max(chain.messages, chain.messages_if_large);
  return chain;
}

}  // namespace

Prediction& Prediction::follow_with(const Prediction& next) {
  bytes_sent += next.bytes_sent;
  payload = payload + next.payload;
  header = header + next.header;
  max_bytes += next.max_bytes;
  return *this;
}

Prediction& Prediction::fuse_with(const Prediction& bucket) {
  bytes_sent += bucket.bytes_sent;
  payload = fused(payload, bucket.payload);
  header = fused(header, bucket.header);
  max_bytes += bucket.max_bytes;
  return *this;
}

Chain ring_allreduce_chain(double bytes, int ranks) {
  return {2.0 * (ranks - 1), 2 * bytes * share_of_others(ranks)};
}

Chain rabenseifner_chain(double bytes, int ranks) {
  const auto participants = static_cast<int>(std::bit_floor(unsigned_of(ranks)));
  const Chain halving{2 * rounds(participants), 2 * bytes * share_of_others(participants)};
  return participants == ranks ? halving : halving + Chain{2, 2 * bytes};
}

Chain tree_allreduce_chain(double bytes, int ranks) {
  return {2 * depth(ranks), 2 * rounds(ranks) * bytes};
}

Chain allgather_chain(double bytes, int ranks) {
  const bool doubles = std::has_single_bit(unsigned_of(ranks)) || bytes <= Communicator::kSmallBlock;
  const double around = std::has_single_bit(unsigned_of(ranks)) ? rounds(ranks) : ranks - 1.0;
  return {doubles ? rounds(ranks) : around, bytes * (ranks - 1), bytes, around};
}

Chain ring_gather_chain(double bytes, int ranks) {
  return {ranks - 1.0, bytes * share_of_others(ranks)};
}

Chain broadcast_chain(double bytes, int ranks) {
  return {depth(ranks), rounds(ranks) * bytes};
}

Chain slices_chain(double bytes, int ranks, std::size_t in_flight) {
  return {std::ceil((ranks - 1.0) / static_cast<double>(in_flight)), bytes * share_of_others(ranks)};
}

Chain agreed_word_chain(int ranks) {
  return {rounds(ranks), 16 * rounds(ranks)};
}

Chain counts_chain(int ranks) {
  return allgather_chain(sizeof(std::uint32_t), ranks);
}

}  // namespace dragonn::comm

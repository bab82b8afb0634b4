// SPDX-License-Identifier: MIT
/// Dense allreduce algorithms on send and recv. The result has the same bits on
/// every rank and on every backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/values/value_codec.h"
#include "comm/communicator.h"

namespace dragonn::comm {

/// Ring: P chunks, P-1 steps of reduce-scatter, P-1 steps of allgather. A chunk
/// is summed in the order of the ranks round the ring, at one place. Rank r
/// sends 2n words less its chunks r+1 and r+2, in 2(P-1) messages.
/// @param vectors are summed together, each by its own chunks: one message has
/// the chunks of all. Same sizes on all ranks.
/// @param scratch grows to one chunk, of several vectors to two.
void ring_allreduce(Communicator& communicator, std::span<const std::span<float>> vectors, AllreduceScratch& scratch);

/// Returns what one rank sends and receives in ring_allreduce of `count`
/// values.
Traffic ring_traffic(std::size_t count, int ranks, int rank);

/// Memory that a ring with coded messages keeps from call to call.
struct CodedRingScratch {
  Buffer<std::byte> incoming, outgoing;
  Buffer<float> values, decoded;
};

/// Vectors to sum, and what their rounding leaves behind, in vectors of the
/// same sizes.
struct CodedVectors {
  std::span<const std::span<float>> values;
  std::span<const std::span<float>> remainders;
  std::span<const std::span<std::uint8_t>> stayed;  ///< 1 where a whole partial sum, not 0, is left; or empty
};

/// Sums as ring_allreduce does, but every message is the code of its partial
/// sums. Each rank rounds every element once, where it sends it on, or in the
/// block whose sum it completes; remainders <- partial sum - what its code
/// decodes to. So sums over the ranks of values before = values after + sums of
/// remainders, to float32. All ranks decode the same bytes. Two ranks or more.
/// @param codec codes each value by itself (ValueCodecEntry::carries_sums).
/// @param scratch grows to a block of all vectors, four times.
void coded_ring_allreduce(Communicator& communicator, const codec::ValueCodec& codec, const CodedVectors& vectors,
                          CodedRingScratch& scratch);

/// Rabenseifner: recursive-halving reduce-scatter and recursive-doubling
/// allgather in 2 log2 P messages, 2n(P-1)/P words per rank. Off powers of two
/// the ranks 2i+1, i < r = P - 2^floor(log2 P), first hand their vector to rank
/// 2i and get the sum from it at the end: n words more each way.
/// @param vectors as of ring_allreduce.  @param scratch grows to half of them,
/// of several vectors to all; with a fold to all of them.
void rabenseifner_allreduce(Communicator& communicator, std::span<const std::span<float>> vectors,
                            AllreduceScratch& scratch);

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// Ring allreduce with a lossy value codec: the rounding error stays with the rank that rounded.
#pragma once

#include <cstdint>
#include <span>

#include "codec/values/value_codec.h"
#include "comm/communicator.h"

namespace dragonn::comm {

/// Memory that it keeps from call to call.
struct CodedRingScratch {
  Buffer<std::byte> incoming, outgoing;
  Buffer<float> values, decoded;
};

/// Vectors to sum, and what their rounding leaves behind, in vectors of the same sizes.
struct CodedVectors {
  std::span<const std::span<float>> values;
  std::span<const std::span<float>> remainders;
  std::span<const std::span<std::uint8_t>> stayed;  ///< 1 where a whole partial sum, not 0, is left; or empty
};

/// Sums as ring_allreduce does, but every message is the code of its partial sums. Each rank rounds every element once,
/// where it sends it on, or in the block whose sum it completes; remainders <- partial sum - what its code decodes to.
/// So sums over the ranks of values before = values after + sums of remainders, to float32. All ranks decode the same
/// bytes. Two ranks or more.
/// @param codec codes each value by itself (ValueCodecEntry::carries_sums).  @param scratch grows to a block of all
/// vectors, four times.
void coded_ring_allreduce(Communicator& communicator, const codec::ValueCodec& codec, const CodedVectors& vectors,
                          CodedRingScratch& scratch);

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// Tags: one message tag per collective, so that ranks which disagree on the next collective get an error.
#pragma once

namespace dragonn::comm {

/// The first tag of the collectives. MPI guarantees tags up to 32767.
inline constexpr int kFirstReservedTag = 16384;

enum ReservedTag : int {
  kTagAllreduce = kFirstReservedTag,
  kTagReduce,
  kTagAllgather,
  kTagBroadcast,
  kTagBarrier,
  kTagSlices,
  kTagPing,
};

}  // namespace dragonn::comm

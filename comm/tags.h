// SPDX-License-Identifier: MIT
/// The message tags of the collectives: one each, so that ranks which disagree on what comes next are told so.
#pragma once

namespace dragonn::comm {

/// Tags from here on belong to the collectives. MPI promises tags up to 32767.
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

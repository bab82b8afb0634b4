// SPDX-License-Identifier: MIT
#include "core/this_rank.h"

#include <utility>

#include <fmt/format.h>

namespace dragonn {

namespace {
// The rank is the thread's, and no parameter: kernels and readers of files know no communicator, but their errors are
// to name the rank.
thread_local int current = kNoRank;
}  // namespace

ScopedRank::ScopedRank(int rank) : previous_(std::exchange(current, rank)) {}
ScopedRank::~ScopedRank() {
  current = previous_;
}

int this_rank() {
  return current;
}

std::string this_rank_prefix() {
  return current == kNoRank ? "" : fmt::format("rank {}, ", current);
}

}  // namespace dragonn

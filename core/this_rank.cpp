// SPDX-License-Identifier: MIT
#include "core/this_rank.h"

#include <utility>

#include <fmt/format.h>

namespace dragonn {

namespace {
thread_local int current = kNoRank;
}

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

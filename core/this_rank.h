// SPDX-License-Identifier: MIT
/// This rank: the number of the rank that a thread works for, for errors of code that knows no communicator.
#pragma once

#include <string>

namespace dragonn {

/// Declares that the calling thread works for `rank` while this object lives.
class ScopedRank {
 public:
  explicit ScopedRank(int rank);
  ~ScopedRank();
  ScopedRank(const ScopedRank&) = delete;
  ScopedRank& operator=(const ScopedRank&) = delete;

 private:
  int previous_;
};

inline constexpr int kNoRank = -1;
/// Returns the rank; kNoRank outside of any scope.
int this_rank();
/// Returns "rank 2, " as a prefix for errors; empty outside of any scope.
std::string this_rank_prefix();

}  // namespace dragonn

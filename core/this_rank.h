// SPDX-License-Identifier: MIT
/// Which rank a thread works for: for the errors of code that knows no communicator.
#pragma once

#include <string>

namespace dragonn {

/// The calling thread works for `rank` while this lives.
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
/// kNoRank outside of any scope.
int this_rank();
/// "rank 2, "; empty outside of any scope.
std::string this_rank_prefix();

}  // namespace dragonn

// SPDX-License-Identifier: MIT
/// Faults: errors in their input that kernels find while nobody waits for them.
#pragma once

#include <cstdint>

namespace dragonn::kernels::cuda {

/// A token that is no row of its table.
struct TokenFault {
  static constexpr unsigned long long kNone = ~0ull;
  unsigned long long first = kNone;  ///< position << 32 | bits of the token: the minimum of several is the first
  std::uint32_t rows = 0;            ///< rows of that table
};

/// The faults of one thread on one GPU, in page-locked host memory, which a GPU reaches by the same address.
class Faults {
 public:
  Faults();
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  /// The fault that kernels write to.
  TokenFault* token() { return token_; }
  /// Reports faults since the last call; called after a wait. @throws DataError as the CPU's kernels do.
  void report();

 private:
  TokenFault* token_ = nullptr;
};

}  // namespace dragonn::kernels::cuda

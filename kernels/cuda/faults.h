// SPDX-License-Identifier: MIT
/// Faults: what kernels find wrong with their input while nobody waits for them.
#pragma once

#include <cstdint>

namespace dragonn::kernels::cuda {

/// A token that is no row of its table.
struct TokenFault {
  static constexpr unsigned long long kNone = ~0ull;
  unsigned long long first = kNone;  ///< position << 32 | bits of the token: of several the minimum is the first
  std::uint32_t rows = 0;            ///< of that table
};

/// One per thread and GPU, in page-locked memory of the host, which a GPU reaches by the same address.
class Faults {
 public:
  Faults();
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  /// For kernels.
  TokenFault* token() { return token_; }
  /// After a wait: reports what was found since the last call. @throws DataError as the CPU's kernels do.
  void report();

 private:
  TokenFault* token_ = nullptr;
};

}  // namespace dragonn::kernels::cuda

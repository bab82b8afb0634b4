// SPDX-License-Identifier: MIT
/// Transfers between the host and a GPU for which nobody waits: small arrays, and the faults that kernels find.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <initializer_list>
#include <span>

namespace dragonn::kernels::cuda {

/// Memory on either side, filled from front to back. When it is full, the caller waits for the stream once and it is
/// filled from the front again; it grows for an array that is longer than all of it.
class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Copies the arrays, one after the other. The sources may change when this returns. The result is for work that is
  /// put on `stream` before the next call.
  const std::int32_t* place(std::initializer_list<std::span<const std::int32_t>> parts, cudaStream_t stream);

 private:
  void reserve(std::size_t values, cudaStream_t stream);
  void release() noexcept;

  std::int32_t* host_ = nullptr;
  std::int32_t* device_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

/// A token that is no row of its table.
struct TokenFault {
  static constexpr unsigned long long kNone = ~0ull;
  unsigned long long first = kNone;  ///< position << 32 | bits of the token: of several the minimum is the first
  std::uint32_t rows = 0;            ///< of that table
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

// SPDX-License-Identifier: MIT
#include "kernels/cuda/faults.h"

#include <bit>
#include <new>
#include <utility>

#include "kernels/cuda/runtime.h"
#include "kernels/refuse_token.h"

namespace dragonn::kernels::cuda {

Faults::Faults() {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, sizeof(TokenFault)), "cudaMallocHost");
  token_ = new (memory) TokenFault;
}

Faults::~Faults() {
  cudaFreeHost(token_);
}

void Faults::report() {
  if (token_->first == TokenFault::kNone) return;
  const TokenFault found = std::exchange(*token_, {});
  refuse_token(std::bit_cast<float>(static_cast<std::uint32_t>(found.first)),
               static_cast<std::size_t>(found.first >> 32), found.rows);
}

}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
#include "kernels/cuda/staging.h"

#include <algorithm>
#include <bit>
#include <new>
#include <numeric>
#include <utility>

#include "kernels/cuda/runtime.h"
#include "kernels/refuse_token.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr std::size_t kFirstCapacity = std::size_t{1} << 18;  // 1 MiB: lengths and labels of many steps
constexpr std::size_t kAlignment = 4;                         // values: 16 bytes

}  // namespace

Staging::~Staging() {
  release();
}

void Staging::release() noexcept {
  // At the end of the process the driver may be gone: then there is nothing to free.
  if (device_ != nullptr) cudaFree(device_);
  if (host_ != nullptr) cudaFreeHost(host_);
  host_ = device_ = nullptr;
  capacity_ = 0;
}

void Staging::reserve(std::size_t values, cudaStream_t stream) {
  if (used_ + values <= capacity_) return;
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  used_ = 0;
  if (values <= capacity_) return;
  const std::size_t capacity = std::max({values, 2 * capacity_, kFirstCapacity});
  release();
  check(cudaMallocHost(reinterpret_cast<void**>(&host_), capacity * sizeof(std::int32_t)), "cudaMallocHost");
  check(cudaMalloc(reinterpret_cast<void**>(&device_), capacity * sizeof(std::int32_t)), "cudaMalloc");
  capacity_ = capacity;
}

const std::int32_t* Staging::place(std::initializer_list<std::span<const std::int32_t>> parts, cudaStream_t stream) {
  const std::size_t values = std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                                             [](std::size_t sum, const auto& part) { return sum + part.size(); });
  reserve(values, stream);
  const std::size_t begin = used_;
  for (const auto& part : parts) {
    std::ranges::copy(part, host_ + used_);
    used_ += part.size();
  }
  check(cudaMemcpyAsync(device_ + begin, host_ + begin, values * sizeof(std::int32_t), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  used_ = std::min(capacity_, (used_ + kAlignment - 1) / kAlignment * kAlignment);
  return device_ + begin;
}

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

// SPDX-License-Identifier: MIT
/// Staging: small arrays of the host on their way to the GPU, without waiting for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <initializer_list>
#include <span>

namespace dragonn::kernels::cuda {

/// A page of memory on either side, filled from front to back. Whoever comes to its end waits for the stream once and
/// begins at the front again; for an array longer than all of it the page grows.
class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Copies the arrays, one behind the other. The sources may change when this returns. The result is for work that is
  /// put on `stream` before the next call.
  const std::int32_t* place(std::initializer_list<std::span<const std::int32_t>> parts, cudaStream_t stream);

 private:
  void make_room(std::size_t values, cudaStream_t stream);
  void release() noexcept;

  std::int32_t* host_ = nullptr;
  std::int32_t* device_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

}  // namespace dragonn::kernels::cuda

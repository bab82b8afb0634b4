// SPDX-License-Identifier: MIT
/// CUDA runtime: checks of every status, and each thread's stream, library handles, staged arrays and faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>

#include "core/buffer.h"
#include "core/device.h"
#include "core/view.h"

namespace dragonn::kernels::cuda {

// @throws DeviceError naming the operation, the status, the device and the place if it is not a success.

void check(cudaError_t status, const char* operation, std::source_location where = std::source_location::current());
void check(cublasStatus_t status, const char* operation, std::source_location where = std::source_location::current());
void check(cudnnStatus_t status, const char* operation, std::source_location where = std::source_location::current());

/// Memory on either side, filled from front to back. When it is full, the caller waits for the stream once and it is
/// filled from the front again; it grows for an array that is longer than all of it.
class Staging {
 public:
  explicit Staging(const Device& device) : host_(0, host_memory_for(device)), device_(0, device) {}

  /// Copies the arrays, one after the other. The sources may change when this returns. The result is for work that is
  /// put on `stream` before the next call.
  const std::int32_t* place(std::initializer_list<std::span<const std::int32_t>> parts, cudaStream_t stream);

 private:
  void reserve(std::size_t values, cudaStream_t stream);

  Buffer<std::int32_t> host_, device_;
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

/// One thread's use of one GPU: a stream, in whose order all its work runs, and library handles bound to that
/// stream. Two threads of a worker (one computes, one communicates) have two streams.
class Context {
 public:
  explicit Context(const Device& device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Device& device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  /// Returns the cuBLAS handle, made at the first use.
  cublasHandle_t blas();
  cudnnHandle_t dnn();
  int multiprocessors() const { return multiprocessors_; }
  /// Returns the number of blocks of `threads` for a loop over `count` elements with the grid's stride: as many as run
  /// at once, or fewer.
  unsigned blocks(std::size_t count, unsigned threads) const;
  /// Waits for this thread's work. @throws DeviceError if some of it failed; what faults() reports of its input.
  void synchronize();
  /// The faults, for kernels that check their input.
  Faults& faults() { return *faults_; }
  /// The page-locked memory of kResultBytes for small results of a kernel that the host waits for.
  void* host_results() { return host_results_; }
  /// The memory of kResultBytes on the GPU for the same.
  void* device_results() { return device_results_; }
  static constexpr std::size_t kResultBytes = 4096;
  /// Waits for a kernel and returns the T that it wrote to device_results().
  template <class T>
  T read_result() {
    static_assert(sizeof(T) <= kResultBytes && std::is_trivially_copyable_v<T>);
    check(cudaMemcpyAsync(host_results_, device_results_, sizeof(T), cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync");
    synchronize();
    return *static_cast<const T*>(host_results_);
  }

  /// Copies host arrays to the GPU, one after the other, for kernels that are launched before the next call.
  const std::int32_t* stage(std::initializer_list<std::span<const std::int32_t>> parts) {
    refuse_capture("an array of the host that may change");
    return staging_.place(parts, stream_);
  }
  /// Returns GPU memory for operations without a plan that would lend them some. It is valid until the next call, and
  /// grows at need.
  std::byte* scratch(std::size_t bytes) {
    refuse_capture("memory that may move");
    scratch_.resize_discard(bytes);
    return scratch_.data();
  }

  /// Sets whether this thread's work is being recorded now.
  void set_capturing(bool capturing) { capturing_ = capturing; }

 private:
  /// Refuses what would change between replays of recorded work. @throws DeviceError while work is recorded.
  void refuse_capture(const char* what) const;

  Device device_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  int multiprocessors_ = 0;
  void* host_results_ = nullptr;
  void* device_results_ = nullptr;
  std::optional<Faults> faults_;
  Staging staging_;
  Buffer<std::byte> scratch_, blas_workspace_;
  bool capturing_ = false;
};

/// Returns this thread's context on `device`, made at its first use, and makes the device current. The context ends
/// with the thread.
/// @throws DeviceError if there is no such GPU.
Context& context(const Device& device);

/// The default number of threads of a block.
inline constexpr unsigned kThreads = 256;
inline constexpr unsigned kWarp = 32;                 // threads
inline constexpr unsigned kWarps = kThreads / kWarp;  // of such a block
inline constexpr unsigned kAllLanes = 0xffffffffu;    // of a warp

#ifdef DRAGONN_DEVICE_CODE

/// Starts `kernel` on the stream of `here`, and checks that it started. @param name for the error.
template <class... Parameters>
void launch(const Context& here, const char* name, dim3 blocks, dim3 threads, void (*kernel)(Parameters...),
            const std::type_identity_t<Parameters>&... arguments) {
#ifdef __CUDACC__
  kernel<<<blocks, threads, 0, here.stream()>>>(arguments...);
#else
  emulation::enqueue(here.stream(), [=] { emulation::run(blocks, threads, [&] { kernel(arguments...); }); });
#endif
  check(cudaGetLastError(), name);
}

/// Launches a kernel with about one thread for each of `elements`.
template <class... Parameters>
void launch_over(const Context& here, const char* name, std::size_t elements, void (*kernel)(Parameters...),
                 const std::type_identity_t<Parameters>&... arguments) {
  launch(here, name, here.blocks(elements, kThreads), kThreads, kernel, arguments...);
}

/// Returns the element that a thread begins with, and below the step to its next, in a loop over an array.
__device__ inline std::size_t first_element() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::size_t element_stride() {
  return static_cast<std::size_t>(gridDim.x) * blockDim.x;
}

/// Computes quotient and remainder, in 32 bits if they suffice: a 64-bit division costs a kernel more than the memory
/// access that needs it.
struct Split {
  std::size_t quotient, remainder;
};
__device__ inline Split split(std::size_t value, std::size_t divisor) {
  if (((value | divisor) >> 32) != 0) return {value / divisor, value % divisor};
  const auto small = static_cast<unsigned>(value), by = static_cast<unsigned>(divisor);
  return {small / by, small % by};
}
#endif

/// Logs "WHAT, which is slower: REASON" as a warning, once per process and `what`. May be called from any thread.
void warn_of_slower_way(const std::string& what, const std::string& reason);

}  // namespace dragonn::kernels::cuda

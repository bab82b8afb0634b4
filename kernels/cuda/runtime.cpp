// SPDX-License-Identifier: MIT
#include "kernels/cuda/runtime.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <nvtx3/nvToolsExt.h>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/buffer.h"
#include "core/error.h"
#include "core/log.h"
#include "core/memory_ledger.h"
#include "kernels/devices.h"
#include "kernels/refuse_token.h"
#include "kernels/trace.h"

namespace dragonn::kernels::cuda {
namespace {

[[noreturn]] void fail(const char* library, const char* operation, const char* status, std::source_location where) {
  int index = -1;
  cudaGetDevice(&index);
  throw DeviceError(fmt::format("{}: {} on {}device cuda:{} ({}:{})", operation, status, this_rank_prefix(), index,
                                where.file_name(), where.line()) +
                    (library == nullptr ? "" : fmt::format(", from {}", library)));
}

int count_devices() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // it would be reported by the next check
  return 0;
}

std::string obstacle() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return count > 0 ? "" : "no NVIDIA GPU";
  cudaGetLastError();
  return cudaGetErrorString(status);
}

/// The memory that this process holds on its GPUs, and the page-locked host memory that it holds for them.
struct Ledgers {
  MemoryLedger device, host;
};
Ledgers& ledgers() {
  static Ledgers all;
  return all;
}

/// Allocates memory by `get` and records it in the ledger; null if there is none left.
void* try_allocate(cudaError_t (*get)(void**, std::size_t), const char* name, std::size_t bytes, MemoryLedger& ledger) {
  void* memory = nullptr;
  const cudaError_t status = get(&memory, std::max<std::size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it would be reported by the next check
    return nullptr;
  }
  check(status, name);
  ledger.add(memory, bytes);
  return memory;
}

void* allocate(std::size_t bytes, const Device& device) {
  context(device);
  if (void* const memory = try_allocate(cudaMalloc, "cudaMalloc", bytes, ledgers().device)) return memory;
  std::size_t available = 0, total = 0;
  check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
  throw DeviceError(fmt::format(
      "out of memory on {}{}: {} bytes asked for {}, {} of {} are free; on its GPUs this process holds, in bytes: {}",
      this_rank_prefix(), to_string(device), bytes, MemoryLabel::current(), available, total,
      ledgers().device.describe()));
}

void release(void* memory, const Device& device) noexcept {
  ledgers().device.remove(memory);
  // At the end of the process the driver may be gone before the last buffer: then there is nothing to free.
  if (cudaSetDevice(device.index) == cudaSuccess) cudaFree(memory);
}

void* allocate_on_host(std::size_t bytes, const Device& device) {
  context(device);
  if (void* const memory = try_allocate(cudaMallocHost, "cudaMallocHost", bytes, ledgers().host)) return memory;
  throw DeviceError(fmt::format(
      "out of page-locked memory on {}the host of {}: {} bytes asked for {}; this process holds of it, in bytes: {}",
      this_rank_prefix(), to_string(device), bytes, MemoryLabel::current(), ledgers().host.describe()));
}

void release_on_host(void* memory, const Device& device) noexcept {
  ledgers().host.remove(memory);
  if (cudaSetDevice(device.index) == cudaSuccess) cudaFreeHost(memory);  // as in release()
}

DeviceSummary summary(const Device& device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device.index), "cudaGetDeviceProperties");
  DeviceSummary result{.name = properties.name, .identity = {}, .memory_bytes = properties.totalGlobalMem};
  for (const char byte : properties.uuid.bytes)
    result.identity += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return result;
}

std::size_t free_memory(const Device& device) {
  context(device);
  std::size_t available = 0, total = 0;
  check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
  return available;
}

/// Returns the size of cuBLAS's default workspace: 32 MiB from Hopper on, 4 MiB before.
std::size_t cublas_workspace_bytes(const Device& device) {
  constexpr int kHopper = 9;
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index), "cudaDeviceGetAttribute");
  return std::size_t{major >= kHopper ? 32u : 4u} << 20;
}

void start_transfer(View<const std::byte> source, View<std::byte> target) {
  if (source.empty() || source.data() == target.data()) return;
  const Device& device = source.device().is_cpu() ? target.device() : source.device();
  if (!target.device().is_cpu() && !(target.device() == device))
    throw DeviceError("transfer from " + to_string(source.device()) + " to " + to_string(target.device()) +
                      ": expected one GPU, and the host");
  check(cudaMemcpyAsync(target.data(), source.data(), source.size(), cudaMemcpyDefault, context(device).stream()),
        "cudaMemcpyAsync");
}

/// Events on the stream of the thread that marks, made once and used again.
class CudaEventTimer final : public EventTimer {
 public:
  explicit CudaEventTimer(const Device& device) : device_(device) {}
  ~CudaEventTimer() override {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  void mark() override {
    const Context& here = context(device_);
    if (marks_ == events_.size()) check(cudaEventCreate(&events_.emplace_back()), "cudaEventCreate");
    check(cudaEventRecord(events_[marks_], here.stream()), "cudaEventRecord");
    ++marks_;
  }
  double seconds(std::size_t first, std::size_t second) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events_[first], events_[second]), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }
  void clear() override { marks_ = 0; }

 private:
  Device device_;
  std::vector<cudaEvent_t> events_;
  std::size_t marks_ = 0;
};

const bool registered = [] {
  register_memory(DeviceType::kCuda, {allocate, release});
  register_host_memory(DeviceType::kCuda, {allocate_on_host, release_on_host});
  register_gpus({count_devices, obstacle});
  register_trace(DeviceType::kCuda,
                 {[](const char* name) noexcept { nvtxRangePushA(name); }, []() noexcept { nvtxRangePop(); }});
  kernels::synchronize.add(DeviceType::kCuda, [](const Device& device) { context(device).synchronize(); });
  kernels::device_summary.add(DeviceType::kCuda, summary);
  kernels::free_memory.add(DeviceType::kCuda, free_memory);
  kernels::transfer_rows.add(DeviceType::kCuda, start_transfer);
  kernels::make_event_timer.add(DeviceType::kCuda, [](const Device& device) -> std::unique_ptr<EventTimer> {
    return std::make_unique<CudaEventTimer>(device);
  });
  return true;
}();

}  // namespace

void check(cudaError_t status, const char* operation, std::source_location where) {
  if (status != cudaSuccess) fail(nullptr, operation, cudaGetErrorString(status), where);
}

void check(cublasStatus_t status, const char* operation, std::source_location where) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("cuBLAS", operation, cublasGetStatusString(status), where);
}

void check(cudnnStatus_t status, const char* operation, std::source_location where) {
  if (status != CUDNN_STATUS_SUCCESS) fail("cuDNN", operation, cudnnGetErrorString(status), where);
}

void Staging::reserve(std::size_t values, cudaStream_t stream) {
  if (used_ + values <= host_.size()) return;
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  used_ = 0;
  if (values <= host_.size()) return;
  constexpr std::size_t kFirstSize = std::size_t{1} << 18;  // 1 MiB: lengths and labels of many steps
  const std::size_t size = std::max({values, 2 * host_.size(), kFirstSize});
  host_.resize_discard(size);
  device_.resize_discard(size);
}

const std::int32_t* Staging::place(std::initializer_list<std::span<const std::int32_t>> parts, cudaStream_t stream) {
  const std::size_t values = std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                                             [](std::size_t sum, const auto& part) { return sum + part.size(); });
  reserve(values, stream);
  const std::size_t begin = used_;
  for (const auto& part : parts) {
    std::ranges::copy(part, host_.data() + used_);
    used_ += part.size();
  }
  check(cudaMemcpyAsync(device_.data() + begin, host_.data() + begin, values * sizeof(std::int32_t),
                        cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  constexpr std::size_t kAlignment = 4;  // values: 16 bytes
  used_ = std::min(host_.size(), (used_ + kAlignment - 1) / kAlignment * kAlignment);
  return device_.data() + begin;
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

Context::Context(const Device& device)
    : device_(device), staging_(device), scratch_(0, device), blas_workspace_(0, device) {
  const int count = count_devices();
  if (device.index < 0 || device.index >= count)
    throw DeviceError(fmt::format("device {}: this machine has {} NVIDIA GPUs{}", to_string(device), count,
                                  count > 0 ? "" : " (" + obstacle() + ")"));
  check(cudaSetDevice(device.index), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device.index),
        "cudaDeviceGetAttribute");
  check(cudaMallocHost(&host_results_, kResultBytes), "cudaMallocHost");
  check(cudaMalloc(&device_results_, kResultBytes), "cudaMalloc");
  faults_.emplace();
}

Context::~Context() {
  if (cudaSetDevice(device_.index) != cudaSuccess) return;  // as in release()
  if (dnn_ != nullptr) cudnnDestroy(dnn_);
  if (blas_ != nullptr) cublasDestroy(blas_);
  cudaFree(device_results_);
  cudaFreeHost(host_results_);
  cudaStreamDestroy(stream_);
}

cublasHandle_t Context::blas() {
  if (blas_ == nullptr) {
    check(cublasCreate(&blas_), "cublasCreate");
    check(cublasSetStream(blas_, stream_), "cublasSetStream");
    // A workspace of our own, as large as cuBLAS's: its own would be allocated anew in every product that is recorded.
    blas_workspace_.resize_discard(cublas_workspace_bytes(device_));
    check(cublasSetWorkspace(blas_, blas_workspace_.data(), blas_workspace_.size()), "cublasSetWorkspace");
  }
  return blas_;
}

cudnnHandle_t Context::dnn() {
  if (dnn_ == nullptr) {
    check(cudnnCreate(&dnn_), "cudnnCreate");
    check(cudnnSetStream(dnn_, stream_), "cudnnSetStream");
  }
  return dnn_;
}

unsigned Context::blocks(std::size_t count, unsigned threads) const {
  constexpr std::size_t kBlocksPerMultiprocessor = 8;  // 2048 resident threads in blocks of 256
  const std::size_t needed = (count + threads - 1) / threads;
  const std::size_t resident = static_cast<std::size_t>(multiprocessors_) * kBlocksPerMultiprocessor;
  return static_cast<unsigned>(std::clamp<std::size_t>(needed, 1, resident));
}

void Context::synchronize() {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  faults_->report();
}

void Context::refuse_capture(const char* what) const {
  if (capturing_) throw DeviceError(fmt::format("work that is to be repeated asks for {}", what));
}

Context& context(const Device& device) {
  // A context is its thread's, and no parameter: its stream, its libraries' handles and what it records have one user,
  // and the interfaces of kernels are the same for all devices.
  thread_local std::map<int, std::unique_ptr<Context>> contexts;
  std::unique_ptr<Context>& own = contexts[device.index];
  if (own == nullptr) {
    own = std::make_unique<Context>(device);
  } else {
    check(cudaSetDevice(device.index), "cudaSetDevice");
  }
  return *own;
}

void warn_of_slower_way(const std::string& what, const std::string& reason) {
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  if (known.insert(what).second) log::warning(std::max(this_rank(), 0), "{}, which is slower: {}", what, reason);
}

}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
// Collectives between GPUs by NCCL, on the stream of the thread that communicates. Nothing here waits inside of NCCL:
// its communicator does not block, and every wait polls it, and the stream, until a deadline.
#include <chrono>
#include <iterator>
#include <nccl.h>
#include <source_location>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "comm/deadline.h"
#include "comm/device_transport.h"
#include "core/error.h"
#include "kernels/cuda/runtime.h"

namespace dragonn::comm {
namespace {

class NcclTransport final : public DeviceTransport {
 public:
  NcclTransport(Communicator& communicator, const Device& device, double timeout_s)
      : communicator_(communicator), device_(device), timeout_s_(timeout_s) {
    ncclUniqueId id{};
    if (communicator.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    communicator.broadcast_value(0, id);
    kernels::cuda::context(device);  // the GPU that NCCL takes for this rank
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check(ncclCommInitRankConfig(&nccl_, communicator.size(), id, communicator.rank(), &config),
          "initializing NCCL with all ranks");
    wait_for_calls("initializing NCCL with all ranks");
  }
  ~NcclTransport() override {
    if (nccl_ != nullptr) ncclCommAbort(nccl_);
  }

  Device device() const override { return device_; }

  void allreduce_sum(std::span<const View<float>> vectors) override {
    constexpr const char* kOperation = "allreduce over NCCL with all ranks";
    const auto ranks = static_cast<std::uint64_t>(communicator_.size());
    run(kOperation, [&](Traffic& traffic) {
      for (const View<float>& values : vectors) {
        if (values.empty()) continue;
        check(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, nccl_, stream()),
              kOperation);
        const std::uint64_t bytes = 2 * values.size() * sizeof(float) * (ranks - 1) / ranks;
        traffic += {bytes, bytes, 2 * (ranks - 1), 2 * (ranks - 1)};
      }
    });
  }

  void gather(std::span<const DeviceGather> gathers) override {
    constexpr const char* kOperation = "allgather over NCCL with all ranks";
    for (const DeviceGather& gather : gathers) check_parts(gather);
    run(kOperation, [&](Traffic& traffic) {
      for (const DeviceGather& gather : gathers) traffic += add_gather(gather, kOperation);
    });
  }

  void exchange(std::span<const OutgoingBytes> outgoing, std::span<const IncomingBytes> incoming) override {
    // The peers of an operation, for errors.
    operation_.assign("messages over NCCL");
    for (const auto& [destination, bytes] : outgoing)
      fmt::format_to(std::back_inserter(operation_), ", {} bytes to rank {}", bytes.size(), destination);
    for (const auto& [source, bytes] : incoming)
      fmt::format_to(std::back_inserter(operation_), ", {} bytes from rank {}", bytes.size(), source);
    const char* const operation = operation_.c_str();
    run(operation, [&](Traffic& traffic) {
      for (const auto& [destination, bytes] : outgoing) {
        if (bytes.empty()) continue;
        check(ncclSend(bytes.data(), bytes.size(), ncclUint8, destination, nccl_, stream()), operation);
        traffic += {.bytes_sent = bytes.size(), .messages_sent = 1};
      }
      for (const auto& [source, bytes] : incoming) {
        if (bytes.empty()) continue;
        check(ncclRecv(bytes.data(), bytes.size(), ncclUint8, source, nccl_, stream()), operation);
        traffic += {.bytes_received = bytes.size(), .messages_received = 1};
      }
    });
  }

  void finish() override {
    constexpr const char* kOperation = "shutting down NCCL with all ranks";
    check(ncclCommFinalize(nccl_), kOperation);
    wait_for_calls(kOperation);
    const ncclResult_t status = ncclCommDestroy(std::exchange(nccl_, nullptr));
    if (status != ncclSuccess) throw error(kOperation, ncclGetErrorString(status));
  }

 private:
  /// Carries out calls that start together: NCCL only notes those of `add_calls`, which adds up their traffic.
  template <class AddCalls>
  void run(const char* operation, const AddCalls& add_calls) {
    Traffic traffic;
    check(ncclGroupStart(), operation);
    group_is_open_ = true;
    try {
      add_calls(traffic);
    } catch (...) {
      close_group();
      throw;
    }
    group_is_open_ = false;
    check(ncclGroupEnd(), operation);
    wait(operation);
    communicator_.traffic().add(traffic);
  }

  /// Closes a group of which a call failed, so that none of its calls starts. The thread's next calls would else join
  /// it.
  void close_group() {
    if (std::exchange(group_is_open_, false)) ncclGroupEnd();
  }

  void check_parts(const DeviceGather& gather) const {
    const auto ranks = static_cast<std::size_t>(communicator_.size());
    const auto me = static_cast<std::size_t>(communicator_.rank());
    DRAGONN_CHECK(gather.parts.size() == ranks && gather.parts[me].size() == gather.mine.size(),
                  "a gather of {} bytes into {} parts on {} ranks", gather.mine.size(), gather.parts.size(), ranks);
  }

  /// Adds a gather to the open group and returns the traffic that it counts as.
  Traffic add_gather(const DeviceGather& gather, const char* operation) {
    const auto& [mine, parts] = gather;
    const auto me = static_cast<std::size_t>(communicator_.rank());
    Traffic traffic;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const View<std::byte>& part = parts[rank];
      if (part.empty()) continue;
      traffic.bytes_received += rank == me ? 0 : part.size();
      traffic.messages_received += rank == me ? 0 : 1;
      check(ncclBroadcast(rank == me ? mine.data() : part.data(), part.data(), part.size(), ncclUint8,
                          static_cast<int>(rank), nccl_, stream()),
            operation);
    }
    traffic.messages_sent = mine.empty() ? 0 : parts.size() - 1;
    traffic.bytes_sent = mine.size() * (parts.size() - 1);
    return traffic;
  }

  cudaStream_t stream() const { return kernels::cuda::context(device_).stream(); }

  CommError error(const char* operation, const std::string& reason) const {
    const std::string activity = communicator_.activity().describe();
    return CommError(fmt::format("rank {} of {} on {}{}{}: {}: {}", communicator_.rank(), communicator_.size(),
                                 to_string(device_), activity.empty() ? "" : ", ", activity, operation, reason));
  }

  /// Aborts NCCL, which ends what the other GPUs wait for: no kernel is left spinning there. An open group is closed
  /// before, because NCCL aborts nothing inside of one.
  [[noreturn]] void fail(const char* operation, const std::string& reason) {
    const CommError failure = error(operation, reason);
    close_group();
    if (nccl_ != nullptr) ncclCommAbort(std::exchange(nccl_, nullptr));
    throw failure;
  }

  /// Checks a call's status. A call that continues in the background is fine.
  void check(ncclResult_t status, const char* operation, std::source_location where = std::source_location::current()) {
    if (status == ncclSuccess || status == ncclInProgress) return;
    const char* detail = nccl_ != nullptr ? ncclGetLastError(nccl_) : "";
    fail(operation, fmt::format("{} {} ({}:{})", ncclGetErrorString(status), detail, where.file_name(), where.line()));
  }

  /// Polls `is_done` and the state of NCCL until both are done.
  template <class IsDone>
  void poll(const char* operation, const IsDone& is_done) {
    const Deadline deadline = deadline_after(timeout_s_);
    for (;;) {
      ncclResult_t state = ncclSuccess;
      check(ncclCommGetAsyncError(nccl_, &state), operation);
      check(state, operation);
      if (state == ncclSuccess && is_done()) return;
      if (std::chrono::steady_clock::now() >= deadline)
        fail(operation, fmt::format("not done within the deadline of {} s (comm.timeout_s)", timeout_s_));
      std::this_thread::yield();
    }
  }

  /// Waits until NCCL has accepted all calls.
  void wait_for_calls(const char* operation) {
    poll(operation, [] { return true; });
  }
  /// Waits until the GPU has carried them out, too.
  void wait(const char* operation) {
    poll(operation, [&] {
      const cudaError_t status = cudaStreamQuery(stream());
      if (status != cudaErrorNotReady) kernels::cuda::check(status, operation);
      return status == cudaSuccess;
    });
  }

  Communicator& communicator_;
  Device device_;
  double timeout_s_;
  ncclComm_t nccl_ = nullptr;
  bool group_is_open_ = false;
  std::string operation_;
};

[[maybe_unused]] const NcclMaker registered = nccl_maker() = [](Communicator& communicator, const Device& device,
                                                                double timeout_s) -> std::unique_ptr<DeviceTransport> {
  return std::make_unique<NcclTransport>(communicator, device, timeout_s);
};

}  // namespace
}  // namespace dragonn::comm

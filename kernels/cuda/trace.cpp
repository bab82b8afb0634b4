// SPDX-License-Identifier: MIT
#include "kernels/trace.h"

#include <nvtx3/nvToolsExt.h>
#include <vector>

#include "kernels/cuda/runtime.h"

namespace dragonn::kernels::cuda {
namespace {

const bool registered = [] {
  register_trace(DeviceType::kCuda,
                 {[](const char* name) noexcept { nvtxRangePushA(name); }, []() noexcept { nvtxRangePop(); }});
  return true;
}();

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

[[maybe_unused]] const bool timer_registered = kernels::make_event_timer.add(
    DeviceType::kCuda,
    [](const Device& device) -> std::unique_ptr<EventTimer> { return std::make_unique<CudaEventTimer>(device); });

}  // namespace
}  // namespace dragonn::kernels::cuda

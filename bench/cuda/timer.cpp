// SPDX-License-Identifier: MIT
#include "bench/device_timer.h"
#include "kernels/cuda/runtime.h"

namespace dragonn::bench {
namespace {

using kernels::cuda::check;

/// A pair of events on the stream of this thread.
class EventPair {
 public:
  explicit EventPair(kernels::cuda::Context& here) : here_(here) {
    check(cudaEventCreate(&start_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~EventPair() {
    cudaEventDestroy(start_);
    cudaEventDestroy(end_);
  }
  EventPair(const EventPair&) = delete;
  EventPair& operator=(const EventPair&) = delete;

  void start() { check(cudaEventRecord(start_, here_.stream()), "cudaEventRecord"); }
  double seconds() {
    check(cudaEventRecord(end_, here_.stream()), "cudaEventRecord");
    here_.synchronize();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start_, end_), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  kernels::cuda::Context& here_;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

double time_on_gpu(const Device& device, const Work& work) {
  kernels::cuda::Context& here = kernels::cuda::context(device);
  EventPair events(here);
  here.synchronize();
  events.start();
  work.call(work.body);
  return events.seconds();
}

[[maybe_unused]] const bool registered = time_work.add(DeviceType::kCuda, time_on_gpu);

}  // namespace
}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
// Events: an event has a time as soon as its stream has come to it.
#include <chrono>
#include <cuda_runtime_api.h>
#include <mutex>

#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/stream.h"

struct CUevent_st {
  int records = 0;  ///< that their streams have not come to
  bool destroyed = false;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
};

using dragonn::emulation::device_mutex;

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::scoped_lock lock(device_mutex());
  event->destroyed = true;
  if (event->records == 0) delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  {
    const std::scoped_lock lock(device_mutex());
    ++event->records;
    event->recorded = true;
  }
  dragonn::emulation::enqueue(stream, [event] {
    event->time = std::chrono::steady_clock::now();
    if (--event->records == 0 && event->destroyed) delete event;
  });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const std::scoped_lock lock(device_mutex());
  if (!start->recorded || !end->recorded) return cudaErrorInvalidResourceHandle;
  if (start->records > 0 || end->records > 0) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}
}

// SPDX-License-Identifier: MIT
#include "tests/cuda_emulation/stream.h"

#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/waits.h"

/// A queue. Work is added after `last`, unless the stream is captured.
struct CUstream_st {
  std::unique_ptr<dragonn::emulation::Work> first;
  dragonn::emulation::Work* last = nullptr;
  std::unique_ptr<dragonn::emulation::Recording> recording;
};

namespace dragonn::emulation {
namespace {

thread_local int captures = 0;
thread_local std::uint64_t waits = 0;

std::vector<CUstream_st*>& streams() {
  static std::vector<CUstream_st*> all;
  return all;
}

/// Does the held work. Returns whether all of it is done.
bool finish_held(CUstream_st& stream) {
  if (stream.first == nullptr) return true;
  const DeviceAccess access;
  while (stream.first != nullptr) {
    if (!stream.first->run()) return false;
    stream.first = std::move(stream.first->next);
  }
  stream.last = nullptr;
  return true;
}

}  // namespace

void enqueue(cudaStream_t stream, std::unique_ptr<Work> work) {
  if (stream == nullptr) {
    std::fputs("emulated GPU: work on the default stream\n", stderr);
    std::abort();
  }
  const std::scoped_lock lock(device_mutex());
  if (stream->recording != nullptr) {
    stream->recording->push_back(std::move(work));
    return;
  }
  Work* const added = work.get();
  (stream->last == nullptr ? stream->first : stream->last->next) = std::move(work);
  stream->last = added;
}

void begin_capture(cudaStream_t stream) {
  stream->recording = std::make_unique<Recording>();
  ++captures;
}
Recording end_capture(cudaStream_t stream) {
  --captures;
  return std::move(*std::exchange(stream->recording, nullptr));
}
bool is_captured(cudaStream_t stream) {
  return stream->recording != nullptr;
}
bool captures_here() {
  return captures > 0;
}

void finish(cudaStream_t stream) {
  for (;;) {
    {
      const std::scoped_lock lock(device_mutex());
      if (finish_held(*stream)) return;
    }
    std::this_thread::yield();
  }
}

void wait_for(cudaStream_t stream) {
  ++waits;
  finish(stream);
}

std::uint64_t waits_here() {
  return waits;
}

void finish_all() {
  const std::scoped_lock lock(device_mutex());
  for (CUstream_st* stream : streams()) finish_held(*stream);
}

}  // namespace dragonn::emulation

using namespace dragonn::emulation;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::scoped_lock lock(device_mutex());
  *stream = streams().emplace_back(new CUstream_st);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  finish(stream);
  const std::scoped_lock lock(device_mutex());
  std::erase(streams(), stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (is_captured(stream)) return cudaErrorStreamCaptureUnsupported;
  wait_for(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (is_captured(stream)) return cudaErrorStreamCaptureUnsupported;
  const std::scoped_lock lock(device_mutex());
  if (stream->first == nullptr) return cudaSuccess;
  finish_held(*stream);  // by the next time
  return cudaErrorNotReady;
}
}

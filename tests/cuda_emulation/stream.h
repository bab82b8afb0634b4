// SPDX-License-Identifier: MIT
/// Streams of the emulated GPU. Work on a stream is done when somebody waits for it, and not before: code that reads a
/// result without waiting, or in the order of another stream, finds the old values.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace dragonn::emulation {

/// A call that is made later, with copies of its arguments. It is in memory of malloc, since tests count operator new.
class Work {
 public:
  virtual ~Work() = default;
  /// Runs the call. Returns whether it is done; otherwise the stream stands still until a later call is.
  virtual bool run() = 0;

  static void* operator new(std::size_t bytes) {
    if (void* memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
  }
  static void operator delete(void* memory) { std::free(memory); }

  std::unique_ptr<Work> next;  ///< on the same stream
};

/// Puts `work` on a stream. Ends the program for the default stream, on which nothing of this project is in order.
void enqueue(cudaStream_t stream, std::unique_ptr<Work> work);

/// @param call returns nothing, or whether it is done.
template <class Call>
void enqueue(cudaStream_t stream, Call call) {
  struct Deferred final : Work {
    explicit Deferred(Call&& deferred) : call(std::move(deferred)) {}
    bool run() override {
      if constexpr (std::is_void_v<decltype(call())>) {
        call();
        return true;
      } else {
        return call();
      }
    }
    Call call;
  };
  enqueue(stream, std::unique_ptr<Work>(new Deferred(std::move(call))));
}

/// The work that was put on a stream while it was captured, in its order. None of it has been done.
using Recording = std::vector<std::shared_ptr<Work>>;
void begin_capture(cudaStream_t stream);
Recording end_capture(cudaStream_t stream);
bool is_captured(cudaStream_t stream);
/// Returns whether a stream is captured for the calling thread.
bool captures_here();

/// Does all work on a stream. The calling thread holds the device meanwhile, but not while it waits for others.
void finish(cudaStream_t stream);
/// Does the same for a caller that waits for the GPU, which counts (waits.h).
void wait_for(cudaStream_t stream);
/// Does all work on all streams, except for work that waits for others.
void finish_all();

}  // namespace dragonn::emulation

// SPDX-License-Identifier: MIT
/// The streams of the emulated GPU. What is put on one is done when somebody waits for it, and not before: whoever
/// reads a result without waiting, or in the order of another stream, finds what was there before.
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

/// A call that is made later, with copies of its arguments. In memory of malloc: tests count what operator new gives.
class Work {
 public:
  virtual ~Work() = default;
  /// Whether it is done; else the stream stands still until a later call is.
  virtual bool run() = 0;

  static void* operator new(std::size_t bytes) {
    if (void* memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
  }
  static void operator delete(void* memory) { std::free(memory); }

  std::unique_ptr<Work> next;  ///< on the same stream
};

/// Puts `work` on a stream. Ends the program where it is the default one, on which nothing of this project is in order.
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

/// What was put on a stream while it was captured, in its order. None of it has been done.
using Recording = std::vector<std::shared_ptr<Work>>;
void begin_capture(cudaStream_t stream);
Recording end_capture(cudaStream_t stream);
bool is_captured(cudaStream_t stream);
/// Whether a stream is captured for the calling thread.
bool captures_here();

/// Does all that is on a stream; the calling thread holds the device meanwhile, but not while it waits for others.
void finish(cudaStream_t stream);
/// The same of all streams, but for what waits for others.
void finish_all();

}  // namespace dragonn::emulation

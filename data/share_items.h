// SPDX-License-Identifier: MIT
/// Shares the items of a loop among several threads.
#pragma once

#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace dragonn::data {

/// Calls work(item, thread) for the items 0 to count - 1 on `threads` threads, the caller's among them, and returns
/// when all are done. Threads take items in ascending order. Each call starts them, so an item should take longer than
/// that does. Rethrows the error of the lowest item that failed; items after it may be left out.
/// @param threads at least 1.  @param work its `thread` is below `threads` and works on one item at a time.
template <class Work>
void share_items(std::size_t threads, std::size_t count, const Work& work) {
  std::mutex mutex;
  std::size_t next = 0, failed = 0;
  std::exception_ptr failure;
  const auto serve = [&](std::size_t thread) {
    for (;;) {
      std::unique_lock lock(mutex);
      if (next >= count) return;
      const std::size_t item = next++;
      lock.unlock();
      try {
        work(item, thread);
      } catch (...) {
        lock.lock();
        next = count;
        if (failure && failed < item) continue;
        failure = std::current_exception();
        failed = item;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(serve, thread);
    serve(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace dragonn::data

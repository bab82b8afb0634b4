// SPDX-License-Identifier: MIT
/// WorkerPool: threads that share the items of a loop.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dragonn::data {

/// A fixed number of threads, the caller's among them. One thread at a time calls run().
class WorkerPool {
 public:
  /// Works on one item. @param thread below threads(): it works on one item at a time.
  using Work = std::function<void(std::size_t item, std::size_t thread)>;

  /// @param threads at least 1; 1 starts none.
  explicit WorkerPool(std::size_t threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  std::size_t threads() const { return threads_.size() + 1; }
  /// Calls work for the items 0 to count - 1, and returns when all are done. Threads take items in ascending order.
  /// Rethrows the error of the lowest item that failed; items after it may be left out.
  void run(std::size_t count, const Work& work);

 private:
  void serve(std::size_t thread);
  void take_items(std::size_t thread, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  const Work* work_ = nullptr;
  std::size_t count_ = 0;
  std::size_t next_ = 0;
  std::size_t busy_ = 0;  ///< threads that work on an item
  std::size_t failed_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include "data/worker_pool.h"

#include <utility>

#include "core/error.h"

namespace dragonn::data {

WorkerPool::WorkerPool(std::size_t threads) {
  DRAGONN_CHECK(threads >= 1, "a pool of no threads");
  threads_.reserve(threads - 1);
  for (std::size_t i = 1; i < threads; ++i) threads_.emplace_back(&WorkerPool::serve, this, i);
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(std::size_t count, const Work& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  count_ = count;
  next_ = 0;
  failure_ = nullptr;
  changed_.notify_all();
  take_items(0, lock);
  changed_.wait(lock, [&] { return busy_ == 0; });
  work_ = nullptr;
  count_ = 0;
  next_ = 0;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void WorkerPool::serve(std::size_t thread) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || next_ < count_; });
    if (stopping_) return;
    take_items(thread, lock);
  }
}

void WorkerPool::take_items(std::size_t thread, std::unique_lock<std::mutex>& lock) {
  while (next_ < count_) {
    const std::size_t item = next_++;
    ++busy_;
    std::exception_ptr failure;
    lock.unlock();
    try {
      (*work_)(item, thread);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --busy_;
    // Items before this one have been taken, and their errors come before its own.
    if (failure && (!failure_ || item < failed_)) {
      failure_ = failure;
      failed_ = item;
    }
    if (failure) next_ = count_;
  }
  if (busy_ == 0) changed_.notify_all();
}

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include "tests/cuda_emulation/blocks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <ucontext.h>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace dragonn::emulation {

thread_local Place place;
thread_local Slot slots[kMostThreads];

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier, kDone };

struct Thread {
  ucontext_t context;
  std::unique_ptr<std::byte[]> stack;
  State state = State::kDone;
};

thread_local std::vector<Thread> threads(kMostThreads);
thread_local ucontext_t scheduler;
thread_local unsigned running = 0;
thread_local const std::function<void()>* body = nullptr;

#ifdef __SANITIZE_ADDRESS__
// AddressSanitizer has to know on which stack the program goes on.
thread_local const void* scheduler_stack = nullptr;
thread_local std::size_t scheduler_stack_bytes = 0;

void switch_to_thread(Thread& thread) {
  void* own = nullptr;
  __sanitizer_start_switch_fiber(&own, thread.stack.get(), kStackBytes);
  swapcontext(&scheduler, &thread.context);
  __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
}
void switch_to_scheduler(Thread& thread) {
  void* own = nullptr;
  __sanitizer_start_switch_fiber(thread.state == State::kDone ? nullptr : &own, scheduler_stack, scheduler_stack_bytes);
  swapcontext(&thread.context, &scheduler);
  __sanitizer_finish_switch_fiber(own, &scheduler_stack, &scheduler_stack_bytes);
}
void arrive_on_stack() {
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_bytes);
}
#else
void switch_to_thread(Thread& thread) {
  swapcontext(&scheduler, &thread.context);
}
void switch_to_scheduler(Thread& thread) {
  swapcontext(&thread.context, &scheduler);
}
void arrive_on_stack() {}
#endif

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s (block %u %u, %u threads)\n", what, place.block.x, place.block.y,
               place.block_size.x * place.block_size.y);
  std::abort();
}

void thread_main() {
  arrive_on_stack();
  (*body)();
  threads[running].state = State::kDone;
  switch_to_scheduler(threads[running]);
}

void start(Thread& thread) {
  if (thread.stack == nullptr) thread.stack = std::make_unique<std::byte[]>(kStackBytes);
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack.get();
  thread.context.uc_stack.ss_size = kStackBytes;
  thread.context.uc_link = nullptr;
  makecontext(&thread.context, thread_main, 0);
  thread.state = State::kReady;
}

void wait(State barrier) {
  Thread& thread = threads[running];
  thread.state = barrier;
  switch_to_scheduler(thread);
}

/// Opens the barrier of threads [begin, end) if all that have not ended are there. Whether it did.
bool open_barrier(State barrier, unsigned begin, unsigned end) {
  unsigned waiting = 0;
  for (unsigned t = begin; t < end; ++t) {
    if (threads[t].state == State::kDone) continue;
    if (threads[t].state != barrier) return false;
    ++waiting;
  }
  for (unsigned t = begin; t < end; ++t)
    if (threads[t].state == barrier) threads[t].state = State::kReady;
  return waiting > 0;
}

void run_block(unsigned count) {
  for (unsigned t = 0; t < count; ++t) start(threads[t]);
  for (;;) {
    for (unsigned t = 0; t < count; ++t) {
      if (threads[t].state != State::kReady) continue;
      running = t;
      place.thread = {t % place.block_size.x, t / place.block_size.x, 0};
      switch_to_thread(threads[t]);
    }
    const auto is_done = [](const Thread& thread) { return thread.state == State::kDone; };
    if (std::all_of(threads.begin(), threads.begin() + count, is_done)) return;
    bool goes_on = open_barrier(State::kAtBlockBarrier, 0, count);
    for (unsigned warp = 0; warp < count; warp += kWarpThreads)
      goes_on = open_barrier(State::kAtWarpBarrier, warp, std::min(count, warp + kWarpThreads)) || goes_on;
    if (!goes_on) die("threads wait at barriers that others do not come to");
  }
}

}  // namespace

void run(dim3 blocks, dim3 block_threads, const std::function<void()>& kernel) {
  static std::mutex one_launch;
  const std::scoped_lock lock(one_launch);
  const unsigned count = block_threads.x * block_threads.y;
  place.block_size = block_threads;
  place.grid_size = blocks;
  if (count == 0 || count > kMostThreads || block_threads.z != 1 || blocks.x == 0 || blocks.y == 0 ||
      blocks.y > 65535 || blocks.z != 1)
    die("a launch of no blocks or threads, or of more than a GPU takes");
  body = &kernel;
  for (unsigned y = 0; y < blocks.y; ++y)
    for (unsigned x = 0; x < blocks.x; ++x) {
      place.block = {x, y, 0};
      run_block(count);
    }
}

unsigned thread_number() {
  return running;
}
void wait_for_block() {
  wait(State::kAtBlockBarrier);
}
void wait_for_warp() {
  wait(State::kAtWarpBarrier);
}

}  // namespace dragonn::emulation

// SPDX-License-Identifier: MIT
#include "tests/cuda_emulation/blocks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/cuda_emulation/fiber.h"

namespace dragonn::emulation {

Place place;
int votes[kMaxThreads];

namespace {

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier, kDone };

struct Thread {
  State state = State::kDone;
  unsigned exchanges = 0;
  Fiber* fiber = nullptr;  ///< the fiber on which it waits
};

/// A kernel's call, and the progress of the running block.
struct Launch {
  void (*kernel)(const void*) = nullptr;
  const void* argument = nullptr;
  unsigned threads = 0;
  unsigned started = 0;
};

Launch launch;
std::array<Thread, kMaxThreads> threads;
unsigned running = 0;
Slots slots[2];
std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Fiber*> idle;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s (block %u %u, %u threads)\n", what, place.block.x, place.block.y,
               place.block_size.x * place.block_size.y);
  std::abort();
}

void go_to(unsigned thread) {
  running = thread;
  place.thread = {thread % place.block_size.x, thread / place.block_size.x, 0};
}

/// Takes one thread after the other from its begin to its end; if one has to wait, another fiber takes the next.
void run_threads() {
  for (;;) {
    while (launch.started < launch.threads) {
      go_to(launch.started++);
      threads[running] = {State::kReady, 0, &Fiber::current()};
      launch.kernel(launch.argument);
      threads[running].state = State::kDone;
    }
    idle.push_back(&Fiber::current());
    Fiber::suspend();
  }
}

Fiber& idle_fiber() {
  if (idle.empty()) {
    fibers.push_back(std::make_unique<Fiber>(run_threads));
    idle.reserve(fibers.size());
    return *fibers.back();
  }
  Fiber& fiber = *idle.back();
  idle.pop_back();
  return fiber;
}

void wait(State barrier) {
  threads[running].state = barrier;
  Fiber::suspend();
}

/// Opens the barrier of threads [begin, end) if all that have not ended are there. Returns whether it did.
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

bool open_barriers() {
  bool opened = open_barrier(State::kAtBlockBarrier, 0, launch.threads);
  for (unsigned warp = 0; warp < launch.threads; warp += kWarpThreads)
    opened = open_barrier(State::kAtWarpBarrier, warp, std::min(launch.threads, warp + kWarpThreads)) || opened;
  return opened;
}

void run_block() {
  launch.started = 0;
  while (launch.started < launch.threads) idle_fiber().resume();
  const auto is_done = [](const Thread& thread) { return thread.state == State::kDone; };
  while (!std::all_of(threads.begin(), threads.begin() + launch.threads, is_done)) {
    if (!open_barriers()) die("threads wait at barriers that others do not come to");
    for (unsigned t = 0; t < launch.threads; ++t) {
      if (threads[t].state != State::kReady) continue;
      go_to(t);
      threads[t].fiber->resume();
    }
  }
}

}  // namespace

void run(dim3 blocks, dim3 block_threads, void (*kernel)(const void*), const void* argument) {
  const unsigned count = block_threads.x * block_threads.y;
  place.block_size = block_threads;
  place.grid_size = blocks;
  if (count == 0 || count > kMaxThreads || block_threads.z != 1 || blocks.x == 0 || blocks.y == 0 || blocks.y > 65535 ||
      blocks.z != 1)
    die("a launch of no blocks or threads, or of more than a GPU takes");
  launch = {kernel, argument, count, 0};
  for (unsigned y = 0; y < blocks.y; ++y)
    for (unsigned x = 0; x < blocks.x; ++x) {
      place.block = {x, y, 0};
      run_block();
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

Slots& next_slots() {
  return slots[threads[running].exchanges++ % 2];
}

}  // namespace dragonn::emulation

// SPDX-License-Identifier: MIT
/// Blocks: the threads of a block take turns on the CPU. Everything here is for the holder of the device (stream.h).
#pragma once

#include <cstddef>
#include <vector_types.h>

namespace dragonn::emulation {

inline constexpr unsigned kWarpThreads = 32;
inline constexpr unsigned kMaxThreads = 1024;

/// The place of the running thread; threadIdx and its like name its parts.
struct Place {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
extern Place place;

/// Runs kernel(argument) once for every thread of every block, one block at a time. The next thread runs when one ends
/// or comes to a barrier. Ends the program, saying why, at a launch that no GPU would take or a barrier that never
/// opens.
void run(dim3 blocks, dim3 threads, void (*kernel)(const void*), const void* argument);
template <class Kernel>
void run(dim3 blocks, dim3 threads, const Kernel& kernel) {
  run(
      blocks, threads, [](const void* of) { (*static_cast<const Kernel*>(of))(); }, &kernel);
}

/// The running thread's number within its block.
unsigned thread_number();
/// Returns when all threads of the block, or of the warp, that have not ended are there.
void wait_for_block();
void wait_for_warp();

/// The values that the threads of a warp hand to each other, 16 bytes each, by thread number. Two sets take turns: one
/// may still be read when the next is written, but not the next but one.
struct alignas(16) Slot {
  std::byte bytes[16];
};
using Slots = Slot[kMaxThreads];
/// The set for the running thread's next exchange.
Slots& next_slots();

/// The values of an int per thread of the block, of one exchange at a time.
extern int votes[kMaxThreads];

}  // namespace dragonn::emulation

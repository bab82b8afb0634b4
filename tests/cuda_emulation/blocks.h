// SPDX-License-Identifier: MIT
/// The threads of a block as they take turns on the CPU.
#pragma once

#include <cstddef>
#include <functional>
#include <vector_types.h>

namespace dragonn::emulation {

inline constexpr unsigned kWarpThreads = 32;
inline constexpr unsigned kMostThreads = 1024;

/// Where the running thread is; what threadIdx and its like name.
struct Place {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
extern thread_local Place place;

/// Runs `kernel` once for every thread of every block, one block at a time. The next thread runs when one ends or comes
/// to a barrier. Ends the program, saying why, at a launch that no GPU would take or a barrier that never opens.
/// One launch at a time: shared memory is static.
void run(dim3 blocks, dim3 threads, const std::function<void()>& kernel);

/// The running thread's number within its block.
unsigned thread_number();
/// Returns when all threads of the block, or of the warp, that have not ended are there.
void wait_for_block();
void wait_for_warp();

/// What the threads of a block hand to each other, 16 bytes each, by thread number.
struct alignas(16) Slot {
  std::byte bytes[16];
};
extern thread_local Slot slots[kMostThreads];

}  // namespace dragonn::emulation

// SPDX-License-Identifier: MIT
/// Waits: the number of times that the host waited for the emulated GPU, for tests that hold it.
#pragma once

#include <cstdint>

namespace dragonn::emulation {

/// Returns how often this thread has waited: for a stream, or for a copy to memory that is not page-locked. Allocations
/// do not count.
std::uint64_t waits_here();

}  // namespace dragonn::emulation

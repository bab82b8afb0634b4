// SPDX-License-Identifier: MIT
/// Thread counts: numbers of OpenMP threads on which results must be the same.
#pragma once

namespace dragonn::test {

/// OpenMP's runtime is not instrumented: with more than one thread ThreadSanitizer reports races that are none.
#ifdef __SANITIZE_THREAD__
inline constexpr int kThreadCounts[] = {1};
#else
inline constexpr int kThreadCounts[] = {1, 2, 3};
#endif

}  // namespace dragonn::test

// SPDX-License-Identifier: MIT
/// Stop requests: SIGTERM, SIGINT and SIGUSR1 ask a run to finish its step, write a checkpoint and end with exit
/// code 75. Before the first step SIGTERM and SIGINT end the process as they end any other.
#pragma once

namespace dragonn::trainer {

/// The exit code of a run that stopped on a signal with a checkpoint; a job system can queue it again.
inline constexpr int kExitRequeue = 75;

/// A thread of its own waits for the signals of the process, and all others block them: no handler interrupts any. For
/// oneDNN's matrix products use the stack pointer for a buffer on the heap: what the system puts below it, when it
/// interrupts a thread for a handler, destroys the heap.
class StopSignals {
 public:
  /// Starts that thread, and forgets what was received. Blocks the signals in the calling thread, and so in those that
  /// it starts: a program calls this first. That stays until the process ends: a signal that comes when all results are
  /// written must not make a failure of the run. A second SIGINT, or a second SIGTERM, kills the process at once.
  /// @throws SystemError.
  static void install();
  /// Says that from now on the training loop polls received() in every step. Any thread may call it.
  static void training_begins();
  /// Returns the signal that arrived, or 0. Any thread may call it.
  static int received();
};

}  // namespace dragonn::trainer

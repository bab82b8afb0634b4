// SPDX-License-Identifier: MIT
/// A stop signal that has come.
#pragma once

#include <csignal>
#include <thread>
#include <unistd.h>

#include "trainer/run/signals.h"

namespace dragonn {

/// Takes stop signals from now on, sends this process SIGUSR1, and waits until it has been taken.
inline void receive_stop_signal() {
  trainer::StopSignals::install();
  ::kill(::getpid(), SIGUSR1);
  while (trainer::StopSignals::received() == 0) std::this_thread::yield();
}

}  // namespace dragonn

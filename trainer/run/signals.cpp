// SPDX-License-Identifier: MIT
#include "trainer/run/signals.h"

#include <array>
#include <atomic>
#include <csignal>

namespace dragonn::trainer {
namespace {

constexpr std::array kSignals{SIGTERM, SIGINT, SIGUSR1};

// A signal handler can reach nothing but globals.
std::atomic<int> received_signal{0};
std::atomic<bool> training{false};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  // Before the first step nothing can be lost, and nobody may look for a long time: the signal does what it always
  // does.
  if (!training.load(std::memory_order_relaxed) && signal != SIGUSR1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  received_signal.store(signal, std::memory_order_relaxed);
}

}  // namespace

void StopSignals::install() {
  received_signal.store(0);
  training.store(false);
  for (int signal : kSignals) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    // SIGUSR1 may come more than once (a launcher's warning); a second SIGINT or SIGTERM ends the process now.
    action.sa_flags = SA_RESTART | (signal == SIGUSR1 ? 0 : static_cast<int>(SA_RESETHAND));
    sigaction(signal, &action, nullptr);
  }
}

void StopSignals::training_begins() {
  training.store(true);
}

int StopSignals::received() {
  return received_signal.load(std::memory_order_relaxed);
}

}  // namespace dragonn::trainer

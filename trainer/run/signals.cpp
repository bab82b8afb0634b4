// SPDX-License-Identifier: MIT
#include "trainer/run/signals.h"

#include <array>
#include <atomic>
#include <csignal>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "core/error.h"

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

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

/// Starts the thread that takes the signals, once.
void start_taker() {
  try {
    static const bool started [[maybe_unused]] = [] {
      std::thread([] {
        const sigset_t set = stop_signals();
        pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
        for (;;) ::pause();
      }).detach();
      return true;
    }();
  } catch (const std::system_error& error) {
    throw SystemError(fmt::format("cannot start the thread that takes signals: {}", error.what()));
  }
}

}  // namespace

void StopSignals::install() {
  received_signal.store(0);
  training.store(false);
  for (const int signal : kSignals) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    // SIGUSR1 may come more than once (a launcher's warning); a second SIGINT or SIGTERM ends the process now.
    action.sa_flags = SA_RESTART | (signal == SIGUSR1 ? 0 : static_cast<int>(SA_RESETHAND));
    sigaction(signal, &action, nullptr);
  }
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  start_taker();
}

void StopSignals::training_begins() {
  training.store(true);
}

int StopSignals::received() {
  return received_signal.load(std::memory_order_relaxed);
}

}  // namespace dragonn::trainer

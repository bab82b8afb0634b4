// SPDX-License-Identifier: MIT
#include "trainer/run/signals.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::trainer {
namespace {

constexpr std::array kSignals{SIGTERM, SIGINT, SIGUSR1};

std::atomic<int> last{0};             // signal received, or 0
std::atomic<std::uint32_t> taken{0};  // signals since install(), each a bit
std::atomic<bool> training{false};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

/// Lets a signal do what it does to a process that does not wait for it.
void end_process(int signal) {
  std::signal(signal, SIG_DFL);
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
}

void take(int signal) {
  const std::uint32_t bit = 1U << static_cast<unsigned>(signal);
  const bool is_repeated = (taken.fetch_or(bit) & bit) != 0;
  // Before the first step nothing can be lost, and nobody may look for a long time. SIGUSR1 may come more than once, as
  // a launcher's warning.
  if (signal != SIGUSR1 && (is_repeated || !training)) end_process(signal);
  last = signal;
}

/// Starts the thread that takes the signals, once.
void start_taker() {
  try {
    static const bool started [[maybe_unused]] = [] {
      std::thread([] {
        const sigset_t set = stop_signals();
        for (int signal = 0;;) {
          if (sigwait(&set, &signal) == 0) take(signal);
        }
      }).detach();
      return true;
    }();
  } catch (const std::system_error& error) {
    throw SystemError(fmt::format("cannot start the thread that takes signals: {}", error.what()));
  }
}

}  // namespace

void StopSignals::install() {
  last = 0;
  taken = 0;
  training = false;
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  start_taker();
}

void StopSignals::training_begins() {
  training = true;
}

int StopSignals::received() {
  return last;
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/run/signals.h"

#include <csignal>
#include <thread>

#include <doctest/doctest.h>

#include "tests/support/stop_signal.h"

namespace dragonn::trainer {
namespace {

TEST_CASE("stop signals: the threads that compute block them, and the run hears of them") {
  receive_stop_signal();
  CHECK(StopSignals::received() == SIGUSR1);
  std::thread([] {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) CHECK(sigismember(&blocked, signal) == 1);
  }).join();
  StopSignals::install();
  CHECK(StopSignals::received() == 0);
}

}  // namespace
}  // namespace dragonn::trainer

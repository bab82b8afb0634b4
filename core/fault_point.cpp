// SPDX-License-Identifier: MIT
#include "core/fault_point.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <regex>
#include <string>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn {

#ifdef DRAGONN_FAULT_POINTS

namespace {

struct Fault {
  std::string place;
  int rank = 0;
  int pass = 0;
  std::string action;
  double seconds = 0;  ///< of the action "sleep"
};

const char* wanted() {
  return std::getenv("DRAGONN_FAULT");
}

Fault parse(const std::string& text) {
  static const std::regex pattern(
      "([^:]*):(-?[0-9]{1,9}):([1-9][0-9]{0,8}):(throw|kill|stop|term|usr1|sleep=([0-9]*\\.?[0-9]+))");
  std::smatch parts;
  if (!std::regex_match(text, parts, pattern))
    throw ConfigError(fmt::format(
        "DRAGONN_FAULT={}: expected PLACE:RANK:PASS:ACTION, ACTION one of throw, kill, stop, term, usr1, sleep=SECONDS",
        text));
  return {.place = parts[1].str(),
          .rank = std::stoi(parts[2].str()),
          .pass = std::stoi(parts[3].str()),
          .action = parts[4].str(),
          .seconds = parts[5].matched ? std::stod(parts[5].str()) : 0};
}

void act(const Fault& fault) {
  if (fault.action == "throw") throw Error(fmt::format("a fault that DRAGONN_FAULT asks for at {}", fault.place));
  if (fault.action.starts_with("sleep"))
    return std::this_thread::sleep_for(std::chrono::duration<double>(fault.seconds));
  const int signal = fault.action == "kill"   ? SIGKILL
                     : fault.action == "stop" ? SIGSTOP
                     : fault.action == "term" ? SIGTERM
                                              : SIGUSR1;
  ::kill(::getpid(), signal);
  // Another thread takes what this one blocks (trainer/run/signals.h). What follows sees that it has come.
  sigset_t pending;
  do std::this_thread::yield();
  while (sigpending(&pending) == 0 && sigismember(&pending, signal) == 1);
}

}  // namespace

const bool detail::fault_wanted = wanted() != nullptr;

void detail::reach_fault_point(std::string_view place) {
  static const Fault fault = parse(wanted());
  static std::atomic<int> passes{0};
  if (place == fault.place && this_rank() == fault.rank && ++passes == fault.pass) act(fault);
}

bool has_fault_points() {
  return true;
}

#else

const bool detail::fault_wanted = false;

void detail::reach_fault_point(std::string_view) {}

bool has_fault_points() {
  return false;
}

#endif

}  // namespace dragonn

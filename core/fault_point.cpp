// SPDX-License-Identifier: MIT
#include "core/fault_point.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn {

#ifdef DRAGONN_FAULT_POINTS

namespace {

struct Fault {
  std::string place;
  int rank = 0;
  int pass = 0;
  std::string action = {};
  double seconds = 0;  ///< of the action "sleep"
};

const char* wanted() {
  return std::getenv("DRAGONN_FAULT");
}

template <class T>
bool is_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// Returns what stands before the next colon, and removes both.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(':'));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

Fault parse(std::string_view text) {
  std::string_view rest = text;
  Fault fault{.place = std::string(take_word(rest))};
  bool valid = is_number(take_word(rest), fault.rank);
  valid = is_number(take_word(rest), fault.pass) && fault.pass > 0 && valid;
  fault.action = rest.substr(0, rest.find('='));
  const bool sleeps = fault.action == "sleep";
  if (sleeps) valid = rest.size() > 6 && is_number(rest.substr(6), fault.seconds) && valid;
  const bool known = sleeps || rest == "throw" || rest == "kill" || rest == "stop" || rest == "term" || rest == "usr1";
  if (valid && known) return fault;
  throw ConfigError(fmt::format(
      "DRAGONN_FAULT={}: expected PLACE:RANK:PASS:ACTION, ACTION one of throw, kill, stop, term, usr1, sleep=SECONDS",
      text));
}

void act(const Fault& fault) {
  if (fault.action == "throw") throw Error(fmt::format("a fault that DRAGONN_FAULT asks for at {}", fault.place));
  if (fault.action == "sleep") return std::this_thread::sleep_for(std::chrono::duration<double>(fault.seconds));
  const int signal = fault.action == "kill"   ? SIGKILL
                     : fault.action == "stop" ? SIGSTOP
                     : fault.action == "term" ? SIGTERM
                                              : SIGUSR1;
  std::raise(signal);
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

// SPDX-License-Identifier: MIT
#include "comm/virtual/virtual_worker.h"

#include <cmath>
#include <limits>
#include <time.h>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::comm {
namespace {

/// The time of a message that nobody waits for.
constexpr double kAtOnce = -std::numeric_limits<double>::infinity();
constexpr Moment kNoWait{kAtOnce, kAtOnce};

}  // namespace

double VirtualClock::thread_seconds() {
  timespec time{};
  DRAGONN_CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0,
                "this system has no clock of a thread's CPU time");
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Moment VirtualClock::moment() const {
  if (!runs()) return reached_;
  const double work = thread_seconds() - mark_;
  return {reached_.seconds + work, reached_.ideal + work};
}

void VirtualClock::settle() {
  if (!runs()) return;
  const double seconds = thread_seconds();
  const double work = seconds - mark_;
  reached_ = {reached_.seconds + work, reached_.ideal + work};
  mark_ = seconds;
}

void VirtualClock::advance_to(Moment moment) {
  settle();
  reached_ = {std::max(reached_.seconds, moment.seconds), std::max(reached_.ideal, moment.ideal)};
}

void VirtualClock::attach_to_this_thread() {
  is_taken_ = true;
  if (runs()) mark_ = thread_seconds();
}

void VirtualClock::stop() {
  settle();
  stopped_ = true;
}

void VirtualClock::go() {
  stopped_ = false;
  if (runs()) mark_ = thread_seconds();
}

bool VirtualClock::set_paused(bool paused) {
  const bool before = paused_;
  settle();
  paused_ = paused;
  if (runs()) mark_ = thread_seconds();
  return before;
}

double InPort::reserve(double ready, double seconds) {
  const double begin = std::max(ready, forgotten_);
  std::size_t first = busy_.size();  // the first piece that ends behind `begin`, or there
  while (first > 0 && busy_[first - 1].end >= begin) --first;
  double time = begin;
  double left = seconds;
  std::size_t last = first;  // behind the pieces that the message has passed
  for (; last < busy_.size(); ++last) {
    const double gap = busy_[last].begin - time;
    if (gap > 0 && left <= gap) break;
    left -= std::max(gap, 0.0);
    time = std::max(time, busy_[last].end);
  }
  const double done = time + left;
  // An empty message takes no time, but waits for its turn.
  if (seconds > 0) insert(first, last, {first < last ? std::min(begin, busy_[first].begin) : begin, done});
  return done;
}

void InPort::insert(std::size_t first, std::size_t last, Piece piece) {
  const auto at = [&](std::size_t i) { return busy_.begin() + static_cast<std::ptrdiff_t>(i); };
  if (first < last) {  // from the first piece to the end of the message no gap is left
    busy_[first] = piece;
    busy_.erase(at(first + 1), at(last));
    return;
  }
  if (busy_.size() == kPieces) {
    forgotten_ = busy_.front().end;
    busy_.erase(busy_.begin());
    if (first == 0) return;  // the message itself lies before what is remembered
    --first;
  }
  busy_.insert(at(first), piece);
}

VirtualWorker::VirtualWorker(const NetworkModel& network, Compute compute) : network_(network), clock_(compute) {
  if (!std::isfinite(network.latency_seconds) || network.latency_seconds < 0) {
    throw ConfigError(
        fmt::format("a network with a latency of {} s: expected 0 or more, finite", network.latency_seconds));
  }
  if (!(network.bytes_per_second > 0)) {
    throw ConfigError(
        fmt::format("a network that carries {} bytes per second: expected more than 0", network.bytes_per_second));
  }
}

VirtualWorker::Departure VirtualWorker::send(std::size_t bytes) {
  if (clock_.paused()) return {kNoWait, kAtOnce};
  const Moment sent = clock_.moment();
  const double seconds = seconds_of(bytes);
  out_free_from_ = std::max(sent.seconds, out_free_from_) + seconds;
  return {{out_free_from_ - seconds + network_.latency_seconds, sent.ideal}, out_free_from_};
}

Moment VirtualWorker::receive(Moment first_byte, std::size_t bytes) {
  if (first_byte.seconds == kAtOnce) return kNoWait;
  return {in_.reserve(first_byte.seconds, seconds_of(bytes)), first_byte.ideal};
}

void VirtualWorker::wait_until_out(double out) {
  clock_.advance_to({out, kAtOnce});
}

}  // namespace dragonn::comm

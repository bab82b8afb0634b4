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

VirtualWorker::VirtualWorker(int rank, const NetworkModel& network, Compute compute, SharedNetwork* shared)
    : rank_(rank), network_(network), shared_(shared), clock_(compute) {
  if (!std::isfinite(network.latency_seconds) || network.latency_seconds < 0) {
    throw ConfigError(
        fmt::format("a network with a latency of {} s: expected 0 or more, finite", network.latency_seconds));
  }
  if (!(network.bytes_per_second > 0)) {
    throw ConfigError(
        fmt::format("a network that carries {} bytes per second: expected more than 0", network.bytes_per_second));
  }
}

VirtualWorker::Departure VirtualWorker::send(int destination, std::size_t bytes) {
  if (clock_.paused()) return {kNoWait, kAtOnce};
  const Moment sent = clock_.moment();
  if (shared_ != nullptr) {
    const SharedNetwork::Passage passage = shared_->pass(rank_, destination, sent.seconds, bytes);
    return {{passage.in, sent.ideal}, passage.out};
  }
  const double seconds = seconds_of(bytes);
  out_free_from_ = std::max(sent.seconds, out_free_from_) + seconds;
  return {{out_free_from_ - seconds + network_.latency_seconds, sent.ideal}, out_free_from_};
}

Moment VirtualWorker::receive(Moment first_byte, std::size_t bytes) {
  if (first_byte.seconds == kAtOnce) return kNoWait;
  if (shared_ != nullptr) return first_byte;
  return {in_.reserve(first_byte.seconds, seconds_of(bytes)), first_byte.ideal};
}

void VirtualWorker::wait_until_out(double out) {
  clock_.advance_to({out, kAtOnce});
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/virtual/virtual_worker.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::comm {
namespace {

/// The time of a message that nobody waits for.
constexpr double kAtOnce = -std::numeric_limits<double>::infinity();
constexpr Moment kNoWait{kAtOnce, kAtOnce};

}  // namespace

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
  const double out = out_.reserve(sent.seconds, seconds);
  return {{out - seconds + network_.latency_seconds, sent.ideal}, out};
}

Moment VirtualWorker::receive(Moment first_byte, std::size_t bytes) {
  if (first_byte.seconds == kAtOnce) return kNoWait;
  return {in_.reserve(first_byte.seconds, seconds_of(bytes)), first_byte.ideal};
}

void VirtualWorker::wait_until_out(double out) {
  clock_.advance_to({out, kAtOnce});
}

}  // namespace dragonn::comm

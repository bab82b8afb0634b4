// SPDX-License-Identifier: MIT
/// VirtualWorker: one rank of a virtual cluster: its clock, and its port into the network.
#pragma once

#include <cstddef>

#include "comm/network_model.h"
#include "comm/virtual/port.h"
#include "comm/virtual/virtual_clock.h"

namespace dragonn::comm {

/// The model: a worker has one full-duplex port. A message of b bytes occupies the sender's out-port, and, `latency`
/// later, the receiver's in-port, for b / bandwidth each. So a message alone takes latency + b / bandwidth, messages
/// started together queue at the sender, those of several senders at the receiver, and a rank sends and receives at the
/// same time for the price of one. The network between the ports is never the bottleneck, nothing is lost, there is
/// always room for a message on its way, and a copy costs nothing. Beside that time the clock keeps the ideal one, on a
/// network that takes no time at all: a message is there when it is sent.
///
/// All times follow from the ranks' programs: what a message carries is its time of departure, and who receives it
/// computes when it arrives. How the threads happen to run changes nothing but, with Compute::kMeasured, the measured
/// work.
class VirtualWorker {
 public:
  /// @throws ConfigError if the latency is not finite and at least 0, or the bandwidth not above 0.
  VirtualWorker(const NetworkModel& network, Compute compute);

  VirtualClock& clock() { return clock_; }
  const VirtualClock& clock() const { return clock_; }

  struct Departure {
    Moment first_byte;  ///< when the message's first byte reaches the receiver
    double out;         ///< when the sender's port is done with it
  };
  /// A message is started at the clock's time; the clock does not move. While the clock is paused messages cost
  /// nothing: there is no waiting for them, on both sides.
  Departure send(std::size_t bytes);
  /// When a message is in whose first byte comes at `first_byte`. Once for each, in the order of the owner's program.
  Moment receive(Moment first_byte, std::size_t bytes);
  /// The owner has waited for its port to be done with a message.
  void wait_until_out(double out);

 private:
  double seconds_of(std::size_t bytes) const { return static_cast<double>(bytes) / network_.bytes_per_second; }

  NetworkModel network_;
  VirtualClock clock_;
  OutPort out_;
  InPort in_;
};

/// The simulator's own work costs no virtual time.
class SimulatorScope {
 public:
  /// @param worker null on a cluster that is not virtual.
  explicit SimulatorScope(VirtualWorker* worker) : worker_(worker) {
    if (worker_ != nullptr) worker_->clock().stop();
  }
  ~SimulatorScope() {
    if (worker_ != nullptr) worker_->clock().go();
  }
  SimulatorScope(const SimulatorScope&) = delete;
  SimulatorScope& operator=(const SimulatorScope&) = delete;

 private:
  VirtualWorker* worker_;
};

}  // namespace dragonn::comm

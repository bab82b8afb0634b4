// SPDX-License-Identifier: MIT
/// VirtualWorker: one rank of a virtual cluster: its clock, and its port into the network.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "comm/network_model.h"
#include "comm/virtual/in_port.h"
#include "comm/virtual/shared_network.h"
#include "core/clock.h"

namespace dragonn::comm {

/// The virtual cost of a worker's own work. kMeasured: the CPU time of the thread that runs the clock, whatever else
/// the machine does meanwhile; that of other threads is not seen. kZero: nothing, so that all times are those of the
/// network and the same in every run.
enum class Compute { kMeasured, kZero };
constexpr auto choices(Compute) {
  return std::array{"measured", "zero"};
}

/// A virtual clock. It starts at 0 and stands still until a thread takes it over. Reading it costs a system call with
/// kMeasured.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(Compute compute) : compute_(compute) {}

  Moment moment() const override;
  bool is_virtual() const override { return true; }
  void advance_to(Moment moment) override;
  void attach_to_this_thread() override;
  bool paused() const { return paused_; }

  /// Stops the clock, until go(), for the simulator's own work.
  void stop();
  void go();

 private:
  bool runs() const { return is_taken_ && !stopped_ && !paused_ && compute_ == Compute::kMeasured; }
  bool set_paused(bool paused) override;
  void settle();
  /// Returns the CPU time of the calling thread.
  static double thread_seconds();

  Compute compute_;
  bool is_taken_ = false;
  bool stopped_ = false;
  bool paused_ = false;
  Moment reached_;
  double mark_ = 0;  // thread_seconds() when reached_ was true
};

/// A worker with one full-duplex port. A message of b bytes occupies the sender's out-port for b / bandwidth and,
/// `latency` later, the receiver's in-port for as long. So a message alone takes latency + b / bandwidth, messages that
/// are started together queue at the sender, those of several senders queue at the receiver, and a rank sends and
/// receives at the same time for the price of one. The network between the ports is never the bottleneck, nothing is
/// lost, there is always room for a pending message, and a copy costs nothing. Besides that time the clock keeps the
/// ideal one, for a network on which a message arrives when it is sent.
///
/// All times follow from the ranks' programs: a message carries its departure time, and its receiver computes the
/// arrival, port by port in the order of its program. Thread scheduling changes nothing but, with Compute::kMeasured,
/// the measured work.
///
/// Workers that share links (SharedNetwork) know the arrival when they send, at their turn.
class VirtualWorker {
 public:
  /// @param shared null, or the links that the workers share.
  /// @throws ConfigError if the latency is not finite and at least 0, or the bandwidth not above 0.
  VirtualWorker(int rank, const NetworkModel& network, Compute compute, SharedNetwork* shared = nullptr);

  VirtualClock& clock() { return clock_; }
  const VirtualClock& clock() const { return clock_; }

  struct Departure {
    Moment first_byte;  ///< when the message's first byte reaches the receiver; over shared links the last one
    double out;         ///< when the sender's port is done with the message
  };
  /// Starts a message at the clock's time; the clock does not move. While the clock is paused messages cost nothing,
  /// and no rank waits for them.
  Departure send(int destination, std::size_t bytes);
  /// Returns when a message that departed with `first_byte` is in. Called once per message, in the order of the
  /// owner's program.
  Moment receive(Moment first_byte, std::size_t bytes);
  /// Advances the clock to when the port is done with a message that the owner waits for.
  void wait_until_out(double out);

 private:
  double seconds_of(std::size_t bytes) const { return static_cast<double>(bytes) / network_.bytes_per_second; }

  int rank_;
  NetworkModel network_;
  SharedNetwork* shared_;
  VirtualClock clock_;
  double out_free_from_ = 0;  // messages leave one at a time, in the order in which they are started
  InPort in_;
};

/// Keeps the simulator's own work, the scope, from costing virtual time.
class SimulatorScope {
 public:
  /// @param worker null if the cluster is not virtual.
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

// SPDX-License-Identifier: MIT
/// CallWatch: a deadline for calls of MPI that have none.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "comm/deadline.h"

namespace dragonn::comm {

/// A call of MPI that waits for others and cannot be interrupted, and its deadline.
struct WatchedCall {
  std::string name;     ///< "MPI_Finalize"
  double timeout_s;     ///< seconds in which the call must return
  const char* setting;  ///< the key of that deadline: "comm.timeout_s"
  const char* waits_for = "the other processes of the launch";
};

/// Returns the line that says that the call is late: the rank, the call, the deadline, and a stopped process of the
/// launch, if there is one on this machine.
std::string describe_late(const WatchedCall& call);

/// Ends the process with one line on stderr and exit code 1 unless it is destroyed before the deadline. The launcher
/// then ends the other processes, stopped ones included. No thread but the one that is inside of the call may call MPI,
/// so a second thread can do no more. Time during which this process is suspended does not count.
class CallWatch {
 public:
  explicit CallWatch(WatchedCall call)
      : call_(std::move(call)), thread_([this](const std::stop_token& stop) { watch(stop); }) {}

 private:
  void watch(const std::stop_token& stop);

  WatchedCall call_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace dragonn::comm

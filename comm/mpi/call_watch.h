// SPDX-License-Identifier: MIT
/// The calls of MPI that cannot be polled: CallWatch, a deadline for them; MpiKeeper, start and end in a hosted
/// process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
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

/// Returns the line that says that the call is late, and names a stopped process of the launch on this machine.
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

/// Keeps MPI for the groups of one process, which come and go in threads of their own. MPI can be initialized once, and
/// wants to be finalized by the thread that did it: that thread waits from begin() until the process exits.
class MpiKeeper {
 public:
  /// The keeper of this process.
  static MpiKeeper& instance();

  /// Initializes MPI with MPI_THREAD_MULTIPLE unless the program has, which then finalizes it, too. Waits without a
  /// deadline for the other processes. @throws CommError if MPI offers less, or if the program asked for less.
  void begin();
  /// Counts a group that uses MPI from now on. @param timeout_s the deadline of its waits. The exiting process waits
  /// for the others as long as the most patient group does, says so where they do not come, and leaves MPI as it is.
  void open_group(double timeout_s);
  /// Counts a group that has ended. @param orderly false: messages may be pending, which finalization would wait for.
  /// MPI is then left as it is when the process exits, so that the launcher ends the other processes.
  void close_group(bool orderly);

 private:
  enum class State { kNone, kRunning, kEnding, kFinalized };

  MpiKeeper() = default;
  void keep(int& provided);
  void check_level(int provided);
  static void at_exit();
  void end();

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kNone;
  std::exception_ptr failure_;  // of the first begin(); every later one has it, too
  bool has_begun_ = false;
  bool is_orderly_ = true;
  int open_groups_ = 0;
  double timeout_s_ = 0;      // the longest of all groups
  std::int64_t process_ = 0;  // that begin() ran in
};

}  // namespace dragonn::comm

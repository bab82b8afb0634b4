// SPDX-License-Identifier: MIT
/// MpiKeeper: initializes MPI in a process whose program does not know of it, and finalizes it when the process exits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>

namespace dragonn::comm {

/// Keeps MPI for the groups of one process, which come and go in threads of their own. MPI can be initialized once, and
/// wants to be finalized by the thread that did it: that thread waits from begin() until the process exits.
class MpiKeeper {
 public:
  /// The keeper of this process.
  static MpiKeeper& instance();

  /// Initializes MPI with MPI_THREAD_MULTIPLE unless that was done. Waits without a deadline for the other processes.
  /// If the program has initialized MPI itself, it finalizes it, too. @throws CommError if MPI offers less, or if the
  /// program asked for less.
  void begin();
  /// Counts a group that uses MPI from now on. @param timeout_s the deadline of its waits: when the process exits, it
  /// waits for the other processes as long as the most patient group does, says so where they do not come, and leaves
  /// MPI as it is.
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

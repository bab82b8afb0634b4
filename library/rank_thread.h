// SPDX-License-Identifier: MIT
/// RankThread: the thread in which one rank of a library computes and communicates, while its callers wait.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "trainer/config/config.h"

namespace dragonn::library {

/// A way to connect this process with the others.
struct Connection {
  using RankFunction = std::function<void(comm::Communicator&)>;

  /// Connects the ranks, calls the function as this rank, and ends the group when it returns or throws.
  std::function<void(const RankFunction&)> connect;
  /// The longest wait in seconds until that function is called. Unlimited where connecting has its own deadline.
  double seconds;
};

/// Chooses the backend, as dragonn.h says, and reads rank and rendezvous from the environment. @param rendezvous
/// for TCP if the config has none; empty: that of the environment. @throws ConfigError saying what to set.
Connection choose_connection(const trainer::CommConfig& config, const std::string& rendezvous);

/// Runs a rank's work in a thread of its own. So a caller's thread keeps its OpenMP settings, MPI sees one thread per
/// group, and the functions that run a group from beginning to end (comm::run_tcp, ...) serve calls that come one by
/// one.
class RankThread {
 public:
  using RankFunction = Connection::RankFunction;

  /// Collective. Starts the thread and waits until the ranks are connected and `set_up` has run. Where that is late the
  /// thread is left to itself. @param clean_up runs in the thread when the group ends, before the communicator goes.
  /// @throws comm::TimeoutError at that deadline; what `connect` and `set_up` throw. After a comm::CollectiveError of
  /// `set_up`, which all ranks have, the group ends in order.
  RankThread(const Connection& connection, RankFunction set_up, std::function<void()> clean_up);
  /// Ends as abort() does if nobody has ended the group.
  ~RankThread();
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

  /// Runs `task` in the thread and waits for it. One caller at a time. @throws what the task throws; after a CommError
  /// the group has ended, and every later call throws a CommError with the same text.
  void run(const std::function<void()>& task);
  /// Starts `task` in the thread and returns. A wait() belongs to it, before any other call but is_idle().
  void start(std::function<void()> task);
  /// Returns whether wait() would return, or throw, at once.
  bool is_idle() const;
  /// Waits for the task of start(). @throws as run().
  void wait();
  /// Collective. Waits until all ranks are here, and ends the thread. @throws CommError if the group failed.
  void finish();
  /// Ends the group with an error of this rank, and the thread.
  void abort(const std::string& reason) noexcept;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this object where it never connects
};

}  // namespace dragonn::library

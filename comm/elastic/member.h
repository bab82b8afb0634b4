// SPDX-License-Identifier: MIT
/// Member: a process of an elastic run, as its coordinator sees it. docs/reliability.md explains the protocol.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/deadline.h"
#include "comm/elastic/line_socket.h"
#include "comm/elastic/membership.h"
#include "comm/elastic/protocol.h"
#include "comm/tcp/rendezvous.h"
#include "comm/tcp/secret.h"
#include "comm/tcp/tcp.h"

namespace dragonn::comm {

struct MemberOptions {
  int id = 0;                  ///< that the process asks for; a run that has begun gives it another one
  std::uint64_t config = 0;    ///< a hash of the settings that all members must share
  Rendezvous rendezvous = {};  ///< of the coordinator
  double timeout_s = 120;      ///< longest wait for the coordinator to come, and for a message of another member
  double heartbeat_timeout_s = 5;
  double coordinator_timeout_s = 5;  ///< how long a member trains on while the coordinator is gone
  std::shared_ptr<const Secret> secret = nullptr;
};

/// The coordinator is gone, or has dropped this member: it trains no more.
class DroppedError : public CommError {
  using CommError::CommError;
};

/// Another process, to which this member is to give the state of the run.
struct Taker {
  int id = 0;
  std::uint64_t run = 0;  ///< Hello::run of the stream
  Address door = {};      ///< where it listens
};

/// A generation in which this process is a rank.
struct Formation {
  GenerationPlan plan;
  std::string why;              ///< the generation before ended; empty for the first
  TcpOptions options;           ///< how its ranks connect
  std::vector<Loss> lost = {};  ///< members that are gone since the generation before was formed
};

/// Connects to the coordinator. A thread of its own sends beats and hears orders, whatever the process computes: when
/// the generation is over, it aborts what the watched communicator waits for. All other calls come from one thread.
///
/// A member whose coordinator is gone trains on with its group until some agreement fails: then it is dropped. If its
/// group still stands a heartbeat timeout later, none of the others has heard of the coordinator: the run is to stop.
class Member {
 public:
  /// Connects and joins. @throws CommError if the coordinator does not come within the timeout.
  explicit Member(const MemberOptions& options);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Returns the id that this process has asked for or, from its first generation on, that it has.
  int id() const { return options_.id; }
  /// Returns whether this process has been in a generation.
  bool has_trained() const { return generation_ > 0; }
  /// Waits until this process is told that the run has begun, and that it gets the state from a stream. Returns
  /// Hello::run of that; nothing where a generation is formed first. @throws DroppedError.
  std::optional<std::uint64_t> await_fetch();
  /// Says that this process has what it can get of the state.
  void say_ready();
  /// Says that this donor is lost; its own id: that none has come.
  void ask_again(int lost);
  /// Says that this process gives up, as it gets no state: it becomes no member.
  void give_up(const std::string& why) { lose(why); }
  /// Calls `give`, in this object's thread, for each process that this member is to give the state. Empty: nobody.
  void on_taker(std::function<void(const Taker&)> give);
  /// Waits for the next generation. @throws DroppedError.
  Formation await_generation();
  /// Says that this member trains no more in the present generation, and waits for the next one to be known; does
  /// nothing where that has been said. Returns whether the agreement behind `place` counts (see counts()).
  /// @param is_prepared  this member is in that agreement.  @throws DroppedError.
  bool settle(std::uint64_t place, bool is_prepared, const std::string& why);
  /// Says that this member has committed the end of the run. @throws DroppedError if it was none any more.
  void finish(std::uint64_t place);
  /// Says that this member wants to leave the run: its generation ends soon, or the run stops.
  void ask_to_leave(std::uint64_t place);
  bool leaves() const;
  /// Returns whether the coordinator is to hear of this member's residual: once in a second.
  bool wants_mass() const { return wants_mass_; }
  /// Tells the coordinator what the residual is.
  void set_mass(const ResidualMass& mass);
  /// Returns whether the run is to stop with a checkpoint.
  bool is_stopping() const;
  /// Returns whether the present generation is over, or this member is dropped.
  bool is_over() const;
  const MemberOptions& options() const { return options_; }
  /// Returns the socket at which this member listens: for the ranks of a generation whose rank 0 it is, and for donors
  /// while it fetches the state.
  const Descriptor& door() const { return *door_; }
  /// Aborts this communicator when the generation is over. Null: none.
  void watch(Communicator* communicator);

 private:
  void connect();
  /// Returns the reason why the coordinator is not there; empty once it is, at the other end of `socket`.
  std::string try_to_connect(LineSocket& socket) const;
  void run(const std::stop_token& stop);
  void obey(const CoordinatorLine& line);
  void lose(const std::string& why);
  /// The coordinator is gone: this member trains on, and looks for one that was started again. Returns whether that is
  /// there within comm.coordinator_timeout_s; otherwise the run stops.
  bool find_coordinator(const std::string& why, const std::stop_token& stop);
  /// Connects to a coordinator that may know this member, and repeats what the one before has been told since the
  /// present generation began. Returns whether it does.
  bool return_to(Deadline end, const std::stop_token& stop);
  void abort_watched();
  void send(const MemberLine& line);
  /// The same for who holds the mutex.
  void tell(const MemberLine& line);
  bool is_ended() const { return ended_ >= generation_ || (!lost_.empty() && !is_orphan_); }
  void require_member() const;

  MemberOptions options_;
  std::shared_ptr<const Descriptor> door_;  // shared with the options of each generation, which are copied
  LineSocket socket_;
  mutable std::mutex mutex_;  // guards all below, and sending
  std::condition_variable changed_;
  std::optional<CoordinatorLine> next_;
  std::optional<std::uint64_t> fetch_;  // of a stream
  std::function<void(const Taker&)> give_;
  std::uint64_t generation_ = 0;
  std::uint64_t ended_ = 0;  // the last generation that is over
  bool has_reported_ = true;
  bool has_finished_ = false;
  std::optional<MemberLine> report_, leave_, finish_;  // what the coordinator of the present generation has been told
  std::atomic<bool> wants_mass_ = true;
  std::string why_;         // the generation is over
  std::string lost_;        // why this is no member any more
  bool is_orphan_ = false;  // the coordinator is gone; once lost_, for good
  bool is_stopping_ = false;
  Communicator* watched_ = nullptr;
  std::jthread thread_;  // last: uses all above
};

}  // namespace dragonn::comm

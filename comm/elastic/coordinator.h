// SPDX-License-Identifier: MIT
/// RunCoordinator: the one place of an elastic run that decides who trains together. docs/reliability.md explains it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "comm/elastic/line_socket.h"
#include "comm/elastic/membership.h"
#include "comm/elastic/protocol.h"
#include "comm/tcp/listener.h"
#include "comm/tcp/rendezvous.h"
#include "comm/tcp/secret.h"

namespace dragonn::comm {

struct CoordinatorOptions {
  Rendezvous rendezvous = {};  ///< where it listens; its file stays as long as the run
  int workers = 1;             ///< the first generation waits for so many, at most timeout_s
  int min_workers = 1;         ///< with fewer the run stops
  int max_workers = 1;         ///< that train together, no fewer than `workers`
  double timeout_s = 120;
  double heartbeat_timeout_s = 5;  ///< a member that is silent for longer is dropped
  /// The member whose process this is: where it wants to leave, the run stops. Negative: none.
  int host = -1;
  /// Asked at every look: true stops the run. Empty: never.
  std::function<bool()> is_signaled = {};
  std::shared_ptr<const Secret> secret = nullptr;  ///< that every member must prove
};

/// Listens, hears the members' beats and reports, and tells them its decisions (Membership). It holds no state of the
/// training, and no data passes it. It wakes 50 times a second.
class RunCoordinator {
 public:
  /// Listens. @throws CommError if it cannot.
  explicit RunCoordinator(const CoordinatorOptions& options);

  /// Serves until the run is over, or `stop` is requested. Returns whether the run began.
  bool serve(const std::stop_token& stop = {});

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// A process that has connected. It becomes a member with its first line.
  struct Peer {
    int id = 0;
    LineSocket socket;
    Time heard = {};
    std::optional<ResidualMass> mass = {};  // the last that it has told
    std::optional<Address> door = {};       // once it has joined
    bool is_gone = false;
  };

  void admit(AcceptedConnection connection);
  void hear(Peer& peer, Time now);
  void obey(Peer& peer, const MemberLine& line);
  void join(Peer& peer, const MemberLine& line);
  void stop_run();
  /// Tells a peer that it is none, and forgets it.
  void drop(Peer& peer, const std::string& why);
  void lose(Peer& peer, const std::string& why);
  void send_orders();
  /// Notes the residual that a member takes along.
  void note_loss(const Peer& peer);
  /// Returns the addresses at which all members reach these.
  std::vector<Address> doors_of(const std::vector<int>& members) const;
  /// Returns the number that the streams to a member carry, as a generation has one: behind those of all generations.
  std::uint64_t run_of_stream(int member) const {
    return token_ + (std::uint64_t{1} << 32) + static_cast<std::uint64_t>(member);
  }
  Peer* member(int id) const;
  double seconds_since_start(Time now) const { return std::chrono::duration<double>(now - start_).count(); }

  CoordinatorOptions options_;
  std::uint64_t token_;
  Listener listener_;
  std::optional<PublishedFile> published_;
  Membership membership_;
  std::vector<std::unique_ptr<Peer>> peers_;
  int next_id_;                          // of a process that joins the run when it has begun
  std::optional<std::uint64_t> config_;  // of the first member, with which all others must agree
  Time start_, beat_;
  bool is_stopping_ = false;
  std::vector<Loss> lost_;   // since the generation before
  bool have_heard_ = false;  // of lost_: all members of the present one
};

}  // namespace dragonn::comm

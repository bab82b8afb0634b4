// SPDX-License-Identifier: MIT
/// RunCoordinator: the one place of an elastic run that decides who trains together. docs/reliability.md explains it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "comm/elastic/journal.h"
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
  /// The file in which it notes each generation. If a coordinator has left an entry there, this one takes up its run.
  /// Empty: nowhere.
  std::filesystem::path journal = {};
};

/// Listens, hears the members' beats and reports, and tells them its decisions (Membership). It holds no state of the
/// training, and no data passes it. It wakes 50 times a second.
class RunCoordinator {
 public:
  /// Listens. @throws CommError if it cannot; as Journal and Journal::read().
  explicit RunCoordinator(const CoordinatorOptions& options);

  /// Serves until the run is over, or `stop` is requested. Returns whether the run began; of one that was taken up,
  /// whether anybody came back. @throws CommError if another coordinator has taken up the run.
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
  /// A member of a coordinator that is gone has come back.
  void take_back(Peer& peer, const MemberLine& line);
  /// Goes on where a coordinator that is gone has left off.
  void take_up(const JournalEntry& entry);
  /// Loses the members that have not come back in time.
  void give_up_missing(Time now);
  /// Returns where a process listens that may join or come back, by what it says of itself; none if it may not: then it
  /// has been told why.
  std::optional<Address> accept(Peer& peer, const MemberLine& line);
  /// Notes the present generation and how far it has come, before anybody hears of it.
  void note_generation();
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
  std::optional<Journal> journal_;
  JournalEntry last_;  // the last generation that members were told of, or may have been by a coordinator that is gone
  std::uint64_t token_;
  Listener listener_;
  std::optional<PublishedFile> published_;
  Membership membership_;
  std::vector<std::unique_ptr<Peer>> peers_;
  int next_id_;                          // of a process that joins the run when it has begun
  std::optional<std::uint64_t> config_;  // of the first member, with which all others must agree
  Time start_, beat_;
  bool is_stopping_ = false;
  bool has_members_ = true;  // if the run was taken up: one of them has come back
  std::set<int> missing_;    // members of a coordinator that is gone, which have not come back
  std::vector<Loss> lost_;   // since the last generation was formed
};

}  // namespace dragonn::comm

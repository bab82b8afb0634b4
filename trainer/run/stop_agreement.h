// SPDX-License-Identifier: MIT
/// StopAgreement: whether all ranks enter their next meeting, or all stop before it; MeetingView: one rank's part in
/// that.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/notification.h"

namespace dragonn::trainer {

/// One rank's view of the next meeting, a step in which all ranks communicate. It sends and waits for nothing itself:
/// what it returns is notified to all other ranks, and what they notify is given to receive(). docs/reliability.md has
/// the protocol, and why all ranks stop before the same meeting or none does.
class MeetingView {
 public:
  /// Kinds of notifications; the value is the number of a meeting.
  enum Kind : std::uint64_t {
    kArrive = 1,  ///< the rank is ready for the meeting, and takes nothing back
    kStop,        ///< the rank has stopped before the meeting, and never arrives
    kAsk,         ///< a signal has reached a rank that has arrived: it asks those that have not to stop
  };
  enum class State { kComputing, kWaiting, kStopped };

  MeetingView(int rank, int size) : rank_(rank), arrived_(static_cast<std::size_t>(size)) {}

  State state() const { return state_; }
  /// Returns the number of the next meeting, from 1.
  std::uint64_t meeting() const { return meeting_; }
  void receive(const comm::Notification& notification);
  /// Decides before a step, while the rank computes: it stops, or waits for the others if the step is a meeting, or
  /// goes on. Returns the notification for all others, if any.
  std::optional<Kind> before_step(bool is_signaled, bool is_meeting);
  /// Decides while the rank waits: it stops, or computes again as the meeting begins, or waits on.
  std::optional<Kind> while_waiting(bool is_signaled);
  /// Returns a rank that has not arrived.
  int missing() const;
  bool has_asked() const { return has_asked_; }

  friend auto operator<=>(const MeetingView&, const MeetingView&) = default;

 private:
  int rank_;
  State state_ = State::kComputing;
  std::uint64_t meeting_ = 1;
  std::vector<std::uint64_t> arrived_;     // the last meeting of each rank
  std::uint64_t stopped_ = 0, asked_ = 0;  // the meeting for which some rank has last sent that
  bool has_asked_ = false;
};

/// Ends a run within a step of any rank, though ranks meet rarely. Used by all ranks alike, and by no other code that
/// sends notifications.
class StopAgreement {
 public:
  /// @param communicator outlives this.  @param is_signaled whether a signal has reached this rank.
  StopAgreement(comm::Communicator& communicator, std::function<bool()> is_signaled)
      : communicator_(communicator),
        is_signaled_(std::move(is_signaled)),
        view_(communicator.rank(), communicator.size()) {}

  /// Called before each step. Returns false if the run stops: all ranks then get false before the same meeting, each
  /// before the step that it would make next. Otherwise a step that is a meeting begins with all ranks ready for it.
  /// The first step of a start, if it is no meeting, is made in any case.
  /// @throws comm::CommError if a rank dies, or does not arrive within `comm.timeout_s`.
  bool may_begin(bool is_meeting);

 private:
  void tell(std::optional<MeetingView::Kind> kind, std::uint64_t meeting);

  comm::Communicator& communicator_;
  std::function<bool()> is_signaled_;
  MeetingView view_;
  bool has_begun_ = false;
};

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/run/stop_agreement.h"

#include <algorithm>
#include <utility>

namespace dragonn::trainer {

void MeetingView::receive(const comm::Notification& notification) {
  std::uint64_t& last = notification.kind == kArrive ? arrived_[static_cast<std::size_t>(notification.source)]
                        : notification.kind == kStop ? stopped_
                                                     : asked_;
  last = std::max(last, notification.value);
}

std::optional<MeetingView::Kind> MeetingView::before_step(bool is_signaled, bool is_meeting) {
  if (is_signaled || stopped_ == meeting_ || asked_ == meeting_) {
    state_ = State::kStopped;
    return kStop;
  }
  if (!is_meeting) return std::nullopt;
  state_ = State::kWaiting;
  has_asked_ = false;
  return kArrive;
}

std::optional<MeetingView::Kind> MeetingView::while_waiting(bool is_signaled) {
  if (stopped_ == meeting_) {
    state_ = State::kStopped;
  } else if (missing() == rank_) {
    state_ = State::kComputing;
    ++meeting_;
  } else if (is_signaled && !std::exchange(has_asked_, true)) {
    return kAsk;
  }
  return std::nullopt;
}

int MeetingView::missing() const {
  for (int rank = 0; rank < static_cast<int>(arrived_.size()); ++rank)
    if (rank != rank_ && arrived_[static_cast<std::size_t>(rank)] < meeting_) return rank;
  return rank_;
}

bool StopAgreement::may_begin(bool is_meeting) {
  const bool is_first = !std::exchange(has_begun_, true);
  if (is_first && !is_meeting) return true;
  while (const auto notification = communicator_.poll_notification()) view_.receive(*notification);
  const std::uint64_t meeting = view_.meeting();
  tell(view_.before_step(!is_first && is_signaled_(), is_meeting), meeting);
  while (view_.state() == MeetingView::State::kWaiting) {
    tell(view_.while_waiting(is_signaled_()), meeting);
    if (view_.state() != MeetingView::State::kWaiting) break;
    const auto notification =
        communicator_.wait_for_notification(view_.missing(), [&] { return !view_.has_asked() && is_signaled_(); });
    if (notification) view_.receive(*notification);
  }
  return view_.state() == MeetingView::State::kComputing;
}

void StopAgreement::tell(std::optional<MeetingView::Kind> kind, std::uint64_t meeting) {
  for (int peer = 0; kind && peer < communicator_.size(); ++peer)
    if (peer != communicator_.rank()) communicator_.notify(peer, {.kind = *kind, .value = meeting});
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "comm/subgroup.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace dragonn::comm {

Subgroup::Subgroup(Communicator& whole, std::vector<int> ranks)
    : Communicator(whole), whole_(whole), ranks_(std::move(ranks)) {
  const auto mine = std::ranges::find(ranks_, whole.rank());
  DRAGONN_CHECK(mine != ranks_.end(), "rank {} makes a part of its group to which it does not belong", whole.rank());
  rank_ = static_cast<int>(mine - ranks_.begin());
}

Request Subgroup::start_send(int destination, int tag, std::span<const std::byte> message) {
  return whole_.start_send(in_whole(destination), tag, message);
}

Request Subgroup::start_receive(int source, int tag, std::span<std::byte> buffer) {
  return whole_.start_receive(in_whole(source), tag, buffer);
}

std::size_t Subgroup::finish(const Request& request) {
  Request of_whole = request;
  of_whole.peer = in_whole(request.peer);
  return whole_.finish(of_whole);
}

// Notifications are taken by their sources: one from any rank could be for another part.

void Subgroup::start_notification(int destination, const Notification& notification) {
  Notification of_whole = notification;
  of_whole.source = whole_.rank();
  whole_.start_notification(in_whole(destination), of_whole);
}

std::optional<Notification> Subgroup::take_notification(int source) {
  DRAGONN_CHECK(source != kAllRanks, "a part of a group takes notifications from one rank at a time");
  return as_from(source, whole_.take_notification(in_whole(source)));
}

std::optional<Notification> Subgroup::finish_notification(int source, const std::function<bool()>& is_interrupted) {
  return as_from(source, whole_.finish_notification(in_whole(source), is_interrupted));
}

std::optional<Notification> Subgroup::as_from(int source, std::optional<Notification> taken) {
  if (taken) taken->source = source;
  return taken;
}

}  // namespace dragonn::comm

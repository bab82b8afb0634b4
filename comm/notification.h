// SPDX-License-Identifier: MIT
/// Notification: two words from one rank to another, outside of the order of messages and collectives;
/// NotificationQueue: those that nobody has taken yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace dragonn::comm {

/// A notification, as GASPI names it. What the words mean is the caller's.
struct Notification {
  std::uint64_t kind = 0;
  std::uint64_t value = 0;
  int source = -1;  ///< the rank that sent it; set on its way

  friend bool operator==(const Notification&, const Notification&) = default;
};

/// The bytes of a notification that are sent: its two words. Counted in the traffic.
inline constexpr std::size_t kNotificationBytes = 2 * sizeof(std::uint64_t);

/// The notifications that came to a rank and that nobody has taken, in the order in which they came.
class NotificationQueue {
 public:
  void add(const Notification& notification) { unread_.push_back(notification); }
  /// Takes the oldest from `source`, or from any rank if that is negative.
  std::optional<Notification> take(int source) {
    const auto fits = [&](const Notification& one) { return source < 0 || one.source == source; };
    const auto oldest = std::ranges::find_if(unread_, fits);
    if (oldest == unread_.end()) return std::nullopt;
    const Notification taken = *oldest;
    unread_.erase(oldest);
    return taken;
  }

 private:
  std::vector<Notification> unread_;
};

}  // namespace dragonn::comm

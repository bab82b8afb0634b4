// SPDX-License-Identifier: MIT
/// Mailbox: the pending messages from one thread to another; Inbox: the notifications to one thread.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>

#include "comm/deadline.h"
#include "comm/notification.h"
#include "comm/virtual/shared_network.h"
#include "core/buffer.h"
#include "core/clock.h"

namespace dragonn::comm {

/// A queue with one sender thread and one receiver thread. A message is copied in, is not changed afterwards, and is
/// copied out. So the sender's memory is its own again at once, and nobody reads the memory of a rank that failed.
///
/// Two slots, used in turn, hold the copies. A sender that is two messages ahead waits. That bounds memory, and makes
/// the memory of each slot depend on the sequence of messages alone, not on timing. Both have room for the largest
/// message so far: a training step that repeats itself finds them large enough after at most two rounds.
///
/// Over shared links of a virtual cluster nobody waits for a slot, as a sender that waits would lose its turn: there
/// are as many as are needed. The links learn, under the mailbox's lock, who waits for what, and what comes.
class Mailbox {
 public:
  /// @param links null, or those that the two ranks share with others.
  Mailbox(int source, int destination, SharedNetwork* links)
      : source_(source), destination_(destination), links_(links) {}

  enum class Status { kDone, kTimedOut, kClosed, kTooLarge };
  struct [[nodiscard]] Result {
    Status status = Status::kDone;
    std::size_t bytes = 0;  ///< size of the message
    Moment stamp = {};      ///< the sender's
  };

  /// Puts a message into the next slot; waits until it is free. Returns kClosed if the mailbox is closed, even when a
  /// slot is free.
  /// @param message if it has no address, only its size is kept.  @param stamp travels with the message.
  Result put(int tag, std::span<const std::byte> message, Moment stamp, RunningDeadline deadline) {
    Slot* slot = nullptr;
    {
      std::unique_lock lock(mutex_);
      const bool ready = wait(lock, deadline, [&] {
        slot = free_slot();
        return closed_ || slot != nullptr;
      });
      if (closed_) return {.status = Status::kClosed};
      if (!ready) return {.status = Status::kTimedOut};
    }
    // A free slot is the sender's alone: the copy needs no lock.
    slot->size = message.size();
    slot->size_only = message.data() == nullptr;
    if (!slot->size_only) {
      largest_ = std::max(largest_, message.size());
      resize_with_slack(slot->bytes, largest_);
      // Becomes one memcpy; the ranges algorithm of GCC 12 is a slower loop where the source is const.
      std::copy_n(message.data(), message.size(), slot->bytes.data());
    }
    {
      const std::scoped_lock lock(mutex_);
      slot->number = sent_++;
      slot->stamp = stamp;
      slot->tag = tag;
      slot->full = true;
      if (links_ != nullptr) links_->arrived(destination_, source_, tag);
    }
    changed_.notify_all();
    return {.status = Status::kDone, .bytes = message.size(), .stamp = stamp};
  }
  /// Takes the oldest message with this tag; waits until there is one. Nothing is copied if the message is size-only or
  /// the buffer has no address. A closed mailbox still gives what it holds.
  Result take(int tag, std::span<std::byte> buffer, RunningDeadline deadline) {
    Slot* slot = nullptr;
    {
      std::unique_lock lock(mutex_);
      const auto is_ready = [&] {
        slot = oldest(tag);
        return closed_ || slot != nullptr;
      };
      if (links_ != nullptr && !is_ready()) links_->suspend(destination_, source_, tag);
      const bool ready = wait(lock, deadline, is_ready);
      if (links_ != nullptr) links_->resume(destination_);
      if (slot == nullptr) return {.status = ready ? Status::kClosed : Status::kTimedOut};
    }
    // A full slot is the receiver's alone.
    const std::size_t bytes = slot->size;
    const Moment stamp = slot->stamp;
    if (bytes > buffer.size()) return {.status = Status::kTooLarge, .bytes = bytes};
    if (!slot->size_only && buffer.data() != nullptr) std::copy_n(slot->bytes.data(), bytes, buffer.data());
    {
      const std::scoped_lock lock(mutex_);
      slot->full = false;
    }
    changed_.notify_all();
    return {.status = Status::kDone, .bytes = bytes, .stamp = stamp};
  }
  /// Closes the mailbox and wakes both sides. May be called from any thread.
  void close() {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  struct Slot {
    Buffer<std::byte> bytes;
    std::size_t size = 0;      ///< size of the message
    bool size_only = false;    ///< the message is size-only
    std::uint64_t number = 0;  ///< sequence number of the message
    Moment stamp = {};
    int tag = 0;
    bool full = false;
  };
  /// Waits, under the lock, until `is_ready` or the deadline is over; returns whether it is ready.
  template <class IsReady>
  bool wait(std::unique_lock<std::mutex>& lock, RunningDeadline deadline, const IsReady& is_ready) {
    while (!changed_.wait_until(lock, deadline.next_look(), is_ready)) {
      if (deadline.is_over()) return false;
    }
    return true;
  }
  Slot* free_slot() {
    Slot& next = slots_[sent_ % slots_.size()];
    if (!next.full) return &next;
    for (Slot& slot : slots_) {
      if (!slot.full) return &slot;  // messages were taken out of order
    }
    return links_ != nullptr ? &slots_.emplace_back() : nullptr;
  }
  Slot* oldest(int tag) {
    Slot* found = nullptr;
    for (Slot& slot : slots_) {
      if (slot.full && slot.tag == tag && (found == nullptr || slot.number < found->number)) found = &slot;
    }
    return found;
  }

  int source_, destination_;
  SharedNetwork* links_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Slot> slots_{2};  // of which no use moves any
  std::uint64_t sent_ = 0;
  std::size_t largest_ = 0;  // message so far; the sender's alone
  bool closed_ = false;
};

/// The notifications to one rank, from all others. Any thread adds, one takes.
class Inbox {
 public:
  /// @param links null, or those that `rank`, whose inbox this is, shares with others. Called before any thread.
  void share(int rank, SharedNetwork* links) {
    rank_ = rank;
    links_ = links;
  }
  void add(const Notification& notification) {
    {
      const std::scoped_lock lock(mutex_);
      unread_.add(notification);
      if (links_ != nullptr) {
        for (const int awaited : {notification.source, kAnyone}) links_->arrived(rank_, awaited, kTag);
      }
    }
    changed_.notify_all();
  }
  std::optional<Notification> take(int source) {
    const std::scoped_lock lock(mutex_);
    return unread_.take(source);
  }
  /// Waits for a notification from `source`. Returns none if `is_in_vain`, which wake() makes it ask again, or if the
  /// deadline is over.
  template <class IsInVain>
  std::optional<Notification> wait(int source, RunningDeadline deadline, const IsInVain& is_in_vain) {
    std::optional<Notification> taken;
    std::unique_lock lock(mutex_);
    const auto is_over = [&] { return (taken = unread_.take(source)).has_value() || is_in_vain(); };
    if (is_over()) return taken;
    if (links_ != nullptr) links_->suspend(rank_, source < 0 ? kAnyone : source, kTag);
    while (!changed_.wait_until(lock, deadline.next_look(), is_over)) {
      if (deadline.is_over()) break;
    }
    if (links_ != nullptr) links_->resume(rank_);
    return taken;
  }
  /// Wakes the rank that waits.
  void wake() {
    { const std::scoped_lock lock(mutex_); }
    changed_.notify_all();
  }

 private:
  static constexpr int kTag = -1, kAnyone = -1;  // no message has this tag

  int rank_ = 0;
  SharedNetwork* links_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  NotificationQueue unread_;
};

}  // namespace dragonn::comm

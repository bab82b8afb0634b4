// SPDX-License-Identifier: MIT
/// Mailbox: the messages on their way from one thread to another.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "comm/deadline.h"
#include "core/buffer.h"
#include "core/clock.h"

namespace dragonn::comm {

/// One sender thread, one receiver thread. A message is copied in, is not changed afterwards, and is copied out: the
/// sender's memory is its own again at once, so that nobody reads the memory of a rank that failed.
///
/// Two slots, used in turn, hold the copies. A sender that is two messages ahead waits. That bounds memory, and makes
/// the memory of each slot depend on the sequence of messages alone, not on timing. Both have room for the largest
/// message so far: a training step that repeats itself finds them large enough after at most two rounds.
class Mailbox {
 public:
  enum class Status { kDone, kTimedOut, kClosed, kTooLarge };
  struct [[nodiscard]] Result {
    Status status = Status::kDone;
    std::size_t bytes = 0;  ///< of the message
    Moment stamp = {};      ///< its sender's
  };

  /// Waits for a free slot. kClosed if the mailbox is closed, even when a slot is free.
  /// @param message without an address: its size alone is kept.  @param stamp goes along.
  Result put(int tag, std::span<const std::byte> message, Moment stamp, Deadline deadline);
  /// Waits for the oldest message with this tag and takes it. Of a hollow one, or into a buffer without an address,
  /// nothing is copied. A closed mailbox still gives what it holds.
  Result take(int tag, std::span<std::byte> buffer, Deadline deadline);
  /// Wakes both sides. From any thread.
  void close();

 private:
  struct Slot {
    Buffer<std::byte> bytes;
    std::size_t size = 0;      ///< of the message
    bool hollow = false;       ///< a size and no bytes
    std::uint64_t number = 0;  ///< counts the messages
    Moment stamp = {};
    int tag = 0;
    bool full = false;
  };
  Slot* free_slot();
  Slot* oldest(int tag);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Slot, 2> slots_;
  std::uint64_t sent_ = 0;
  std::size_t largest_ = 0;  // message so far; the sender's alone
  bool closed_ = false;
};

}  // namespace dragonn::comm

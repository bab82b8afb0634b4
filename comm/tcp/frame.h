// SPDX-License-Identifier: MIT
/// Frames: what goes over a connection between two ranks, messages and short texts; Outgoing writes them, Incoming
/// reads them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/notification.h"
#include "core/buffer.h"

namespace dragonn::comm {

enum class FrameKind : std::uint32_t {
  kMessage,
  // The kinds below carry a text, which may be empty.
  kEnd,           ///< this rank is done
  kFailure,       ///< this rank failed, with the reason: ranks that wait for it wait in vain
  kAbort,         ///< the group failed, with the reason
  kWhere,         ///< asks which rank the receiver of this frame waits for
  kHere,          ///< answers kWhere
  kNotification,  ///< carries a notification's words instead of a text
};

struct FrameHeader {
  FrameKind kind = FrameKind::kMessage;
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;  ///< length of what follows the header
};
static_assert(std::has_unique_object_representations_v<FrameHeader>, "no padding that would be sent");

/// The longest message, in bytes: more than any list or gradient with indices of 32 bits needs. A header that claims
/// more is no header of this program.
inline constexpr std::uint64_t kLongestMessage = std::uint64_t{1} << 36;
/// The longest text of a frame, in bytes.
inline constexpr std::size_t kLongestFrameText = 4096;

/// Pending sends or receives, by number. Numbers are reused after release(), so that nothing is allocated once the
/// largest number of pending operations is reached. T has a member `in_use`.
template <class T>
class Operations {
 public:
  std::size_t add(T operation) {
    auto place = std::ranges::find(all_, false, &T::in_use);
    if (place == all_.end()) place = all_.insert(place, T{});
    *place = std::move(operation);
    place->in_use = true;
    return static_cast<std::size_t>(place - all_.begin());
  }
  bool knows(std::size_t number) const { return number < all_.size() && all_[number].in_use; }
  void release(std::size_t number) { all_[number].in_use = false; }
  T& operator[](std::size_t number) { return all_[number]; }
  const T& operator[](std::size_t number) const { return all_[number]; }
  /// Returns how many numbers have been given out.
  std::size_t size() const { return all_.size(); }

 private:
  std::vector<T> all_;
};

/// Writes messages one after the other, from where they lie, as far as the socket takes them. Never waits.
class Outgoing {
 public:
  /// @param socket a connection that outlives this.
  explicit Outgoing(int socket) : socket_(socket) {}

  /// Starts a send and returns its number. The message must not change before it is done.
  std::size_t start(int tag, std::span<const std::byte> message);
  bool knows(std::size_t number) const { return sends_.knows(number); }
  bool is_done(std::size_t number) const { return sends_[number].done; }
  void release(std::size_t number) { sends_.release(number); }

  /// Sends a text, cut after kLongestFrameText, before all messages that have not begun.
  void tell(FrameKind kind, std::string_view text);
  /// Sends a notification in the same way.
  void notify(const Notification& notification);
  /// Releases the buffers of all pending messages. The rest of a message that is half written is copied and still sent;
  /// the others are never sent.
  void detach();
  /// Works like detach() if the buffers may be gone already: after a message that is half written nothing more can be
  /// sent.
  void forget();
  /// Closes this direction of the connection once all has been written.
  void close() { closing_ = true; }

  void write();
  /// Returns whether something waits to be written.
  bool is_pending() const { return !broken_ && (sending_ || !queue_.empty() || !texts_.empty()); }
  /// Returns whether the connection takes nothing more. What was sent before may still be read.
  bool is_broken() const { return broken_; }

 private:
  static constexpr std::size_t kText = ~std::size_t{0};

  struct Send {
    std::span<const std::byte> message;
    int tag = 0;
    bool done = false;
    bool in_use = false;
  };

  bool begin_frame();
  bool is_in_message() const { return sending_ && number_ != kText && !body_.empty(); }

  int socket_;
  Operations<Send> sends_;
  std::vector<std::size_t> queue_;  // oldest first
  std::string texts_;               // complete text frames that wait
  std::string text_;                // the text frames being written
  std::vector<std::byte> kept_;     // the copied rest of a detached message

  // The frame being written: its number, or kText.
  std::size_t number_ = 0;
  FrameHeader header_;
  std::span<const std::byte> head_;
  std::span<const std::byte> body_;
  bool sending_ = false;
  bool closing_ = false;
  bool shut_ = false;
  bool broken_ = false;
};

/// Reads messages as far as they have come; never waits. A large message is read directly into the buffer of its
/// receive. A message that no receive waits for is read into one of two slots. A third one stays in the socket, and its
/// sender waits.
///
/// Both slots have room for the largest message so far: a training step that repeats itself finds them large enough,
/// whatever the timing. Memory that is never touched takes no room. A header's word reserves at most 32 MiB a slot.
class Incoming {
 public:
  /// The way in which the other rank ended.
  enum class End {
    kNone,
    kWell,
    kFailure,  ///< the other rank failed: ranks that wait for it wait in vain
    kAbort,    ///< the group failed
    kLost,     ///< the connection ended without a shutdown notice
  };

  /// @param socket a connection that outlives this.
  explicit Incoming(int socket);

  /// Starts a receive and returns its number. Messages with one tag go to the receives of that tag in the order of
  /// their start.
  std::size_t start(int tag, std::span<std::byte> buffer);
  bool knows(std::size_t number) const { return receives_.knows(number); }
  bool is_done(std::size_t number) const { return receives_[number].done; }
  void release(std::size_t number) { receives_.release(number); }
  /// Returns the size of a message that is done: more than capacity() if it did not fit.
  std::size_t bytes(std::size_t number) const { return receives_[number].bytes; }
  std::size_t capacity(std::size_t number) const { return receives_[number].buffer.size(); }

  void read();
  /// Returns whether more of the socket can be read now.
  bool can_read() const { return !closed_ && state_ != State::kBlocked; }
  /// Forgets all receives, whose buffers may be gone. Later messages are dropped.
  void drop();
  /// Records that the connection is lost, and why.
  void lose(const std::string& reason);

  End end() const { return end_; }
  /// The reason of a failure or abort, or the cause of a lost connection.
  const std::string& end_text() const { return end_text_; }
  /// Returns whether the other rank has closed the connection.
  bool is_closed() const { return closed_; }

  /// Returns whether the other rank has sent kWhere since the last call.
  bool take_question() { return std::exchange(asked_, false); }
  /// Returns the other rank's answer to kWhere if one has come since the last call.
  std::optional<std::string> take_answer() { return std::exchange(answer_, std::nullopt); }
  /// Takes the other rank's oldest notification that has come. It does not name its source.
  std::optional<Notification> take_notification() { return notifications_.take(/*source=*/-1); }

 private:
  static constexpr std::size_t kNobody = ~std::size_t{0};

  struct Receive {
    std::span<std::byte> buffer;
    std::size_t bytes = 0;
    int tag = 0;
    bool done = false;
    bool in_use = false;
  };
  struct Slot {
    Buffer<std::byte> bytes;
    std::size_t size = 0;           ///< size of the message
    std::uint64_t number = 0;       ///< sequence number of the message
    std::size_t claimed = kNobody;  ///< the receive that gets the message when it is complete
    int tag = 0;
    bool in_use = false;
    bool whole = false;
  };
  enum class State { kHeader, kBlocked, kBytes };

  /// Continues reading the current frame. Returns false if nothing can be read now.
  bool step();
  void begin_frame();
  bool place_message();
  /// Returns how many bytes of the frame there is room for now: all, or at least one in a slot that grows.
  std::size_t capacity_for_bytes();
  bool read_bytes();
  void end_frame();
  void end_text_frame();

  Slot* oldest_slot(int tag);
  void reserve_free_slots();
  void give(Slot& slot, std::size_t receive);

  std::size_t staged() const { return stage_end_ - stage_begin_; }
  bool fill_stage();
  /// Reads from the socket. Returns the number of bytes; 0 if none are there.
  std::size_t take(std::byte* target, std::size_t capacity);

  int socket_;
  Operations<Receive> receives_;
  std::vector<std::size_t> waiting_;  // numbers of receives without a message, oldest first
  std::array<Slot, 2> slots_;
  std::size_t largest_ = 0;  // bytes of the largest message so far
  std::uint64_t messages_ = 0;

  // The frame being read, and its destination: a receive, a slot, text_, or none.
  State state_ = State::kHeader;
  FrameHeader header_;
  std::byte* target_ = nullptr;
  std::size_t left_ = 0;
  std::size_t receive_ = kNobody;
  Slot* slot_ = nullptr;
  std::string text_;

  Buffer<std::byte> stage_;  // bytes read ahead
  std::size_t stage_begin_ = 0;
  std::size_t stage_end_ = 0;
  bool drained_ = false;  // the last read got less than it asked for
  bool dropping_ = false;
  bool closed_ = false;

  End end_ = End::kNone;
  std::string end_text_;
  bool asked_ = false;
  std::optional<std::string> answer_;
  NotificationQueue notifications_;
};

}  // namespace dragonn::comm

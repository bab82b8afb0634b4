// SPDX-License-Identifier: MIT
/// Incoming: receives the messages and notices of one other rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/tcp/frame.h"
#include "core/buffer.h"

namespace dragonn::comm {

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
  /// Returns the size of a message that is done: more than room() if it did not fit.
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
};

}  // namespace dragonn::comm

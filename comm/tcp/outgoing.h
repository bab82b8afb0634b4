// SPDX-License-Identifier: MIT
/// Outgoing: sends the messages to one other rank.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "comm/tcp/frame.h"

namespace dragonn::comm {

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
  void tell(FrameKind kind, const std::string& text);
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

}  // namespace dragonn::comm

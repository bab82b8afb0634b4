// SPDX-License-Identifier: MIT
/// StateSender and StateReceiver: the stream by which a donor gives the state of an elastic run to a process that is
/// going to join, beside the training. docs/reliability.md explains the protocol.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "comm/elastic/member.h"
#include "comm/tcp/socket.h"

namespace dragonn::comm {

/// The content of a message of a stream.
enum class StreamKind : std::uint32_t {
  kBeat,     ///< nothing: the donor is there
  kState,    ///< the state at some place of the run
  kUpdate,   ///< an update of what all ranks share, behind that place
  kPresent,  ///< nothing: what is left to send fits into a part
  kBehind,   ///< nothing: updates come faster than they may be sent, and no more will
};

/// A message, which several streams may share.
using StreamBytes = std::shared_ptr<const std::vector<std::byte>>;

/// The donor's end. A thread of its own connects and sends; no call waits for the network. Whatever fails ends the
/// stream: the taker notices, and asks for another donor.
///
/// A message goes out in parts of kPartBytes, of which each is acknowledged; updates that wait share a part. Behind a
/// part that took t seconds the thread rests for t (1 / share - 1): so the stream takes that share of the link,
/// whatever its rate is and however busy it is.
class StateSender {
 public:
  static constexpr std::size_t kPartBytes = std::size_t{256} << 10;

  /// @param options of the donor; id, secret and both timeouts count.  @param share in (0, 1].
  StateSender(const Taker& taker, const MemberOptions& options, double share);
  ~StateSender();
  StateSender(const StateSender&) = delete;
  StateSender& operator=(const StateSender&) = delete;

  /// Sends a message when those before are sent.
  void send(StreamKind kind, StreamBytes bytes);
  /// Drops the updates that have not begun to be sent, and says that there will be no more.
  void fall_behind();
  /// Rests no more: the generation ends for the taker.
  void hurry() { hurries_ = true; }
  /// Returns the bytes of the messages that have not been acknowledged.
  std::size_t waiting_bytes() const;
  bool has_failed() const { return has_failed_; }
  int taker() const { return taker_.id; }

 private:
  struct Message {
    StreamKind kind;
    StreamBytes bytes;
  };

  static std::size_t size_of(const std::deque<Message>& messages);
  void run(const std::stop_token& stop);
  bool connect(const std::stop_token& stop);
  /// Returns the message that is to be sent next, with updates that have joined it; waits for one. Beats go out
  /// meanwhile. Returns none where the connection has ended.
  std::optional<Message> await_message(const std::stop_token& stop);
  bool transmit(const Message& message, const std::stop_token& stop);
  /// Moves all of `bytes`; false where the connection has ended, or does not move for comm.timeout_s.
  bool write(std::span<const std::byte> bytes, const std::stop_token& stop) const;
  bool read(std::span<std::byte> bytes, const std::stop_token& stop) const;
  /// Rests, and sends beats meanwhile. Returns false where the connection has ended.
  bool rest(double seconds, const std::stop_token& stop);
  bool send_beat(const std::stop_token& stop);

  Taker taker_;
  MemberOptions options_;
  double share_;
  Descriptor socket_;
  mutable std::mutex mutex_;  // guards messages_
  std::condition_variable_any changed_;
  std::deque<Message> messages_;
  bool has_state_ = false, has_caught_up_ = false;  // of the thread: what has been sent
  std::atomic<bool> hurries_ = false, has_failed_ = false;
  std::jthread thread_;  // last: uses all above
};

/// The taker's end. A thread of its own accepts donors at the member's door, one after the other, until one has sent
/// the state to its end; then it takes that donor's updates. The member asks for another donor when one is silent for
/// comm.heartbeat_timeout_s.
class StateReceiver {
 public:
  /// Takes a message, in this object's thread. Throws if it cannot: the donor then counts as lost.
  using Take = std::function<void(StreamKind kind, int donor, std::span<const std::byte> bytes)>;

  /// @param member outlives this.  @param run Hello::run of the streams.
  StateReceiver(Member& member, std::uint64_t run, Take take);
  ~StateReceiver();
  StateReceiver(const StateReceiver&) = delete;
  StateReceiver& operator=(const StateReceiver&) = delete;

  /// Waits until so many updates have been taken. Returns whether they have; false once the stream has ended without.
  bool wait_for_updates(std::uint64_t count);
  /// Ends the stream.
  void stop();

 private:
  /// Gives a message to `take_`, one by one where it has several updates. @throws DataError if it is cut off.
  void take(StreamKind kind, int donor, std::span<const std::byte> bytes);
  /// Takes what one donor sends until it is lost. Returns whether it had sent the state to its end.
  bool follow(const std::stop_token& stop, const Descriptor& socket, int donor);
  void run(const std::stop_token& stop, std::uint64_t run);
  bool read(const std::stop_token& stop, const Descriptor& socket, std::span<std::byte> bytes) const;

  Member& member_;
  Take take_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t updates_ = 0;
  bool is_over_ = false;
  std::jthread thread_;  // last: uses all above
};

}  // namespace dragonn::comm

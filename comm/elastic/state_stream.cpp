// SPDX-License-Identifier: MIT
#include "comm/elastic/state_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include <fmt/format.h>

#include "comm/deadline.h"
#include "comm/elastic/protocol.h"
#include "comm/tcp/listener.h"
#include "core/bytes.h"
#include "core/error.h"
#include "core/log.h"

namespace dragonn::comm {
namespace {

constexpr double kLookSeconds = 0.01;
constexpr double kConnectSeconds = 5;
constexpr double kTrySeconds = 1;

/// Precedes every part of a message.
struct Header {
  std::uint32_t kind = 0;
  std::uint32_t is_last = 1;
  std::uint64_t bytes = 0;  ///< at most StateSender::kPartBytes
};
static_assert(std::has_unique_object_representations_v<Header>, "no padding that would be sent");

/// The word for a part that has come.
constexpr std::array<std::byte, 1> kAcknowledgement{std::byte{'+'}};

bool is_transient(ssize_t count) {
  return count < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK);
}

/// Moves all of `left` by `move`, which returns what send() and recv() do. @param limit seconds without a byte.
template <class Bytes, class Move>
bool move_all(const std::stop_token& stop, const Descriptor& socket, Bytes left, short events, double limit,
              const Move& move) {
  RunningDeadline end(deadline_after(limit), kLookSeconds);
  while (!left.empty()) {
    if (stop.stop_requested()) return false;
    const bool is_ready = wait_for(socket, events, end.next_look());
    const ssize_t count = is_ready ? move(left) : 0;
    if (is_ready && count <= 0 && !is_transient(count)) return false;
    if (is_ready && count > 0) {
      left = left.subspan(static_cast<std::size_t>(count));
      end = RunningDeadline(deadline_after(limit), kLookSeconds);
    } else if (end.is_over()) {
      return false;
    }
  }
  return true;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

StateSender::StateSender(const Taker& taker, const MemberOptions& options, double share)
    : taker_(taker), options_(options), share_(share), thread_([this](const std::stop_token& stop) { run(stop); }) {}

StateSender::~StateSender() = default;

void StateSender::send(StreamKind kind, StreamBytes bytes) {
  {
    const std::lock_guard lock(mutex_);
    messages_.push_back({kind, std::move(bytes)});
  }
  changed_.notify_all();
}

void StateSender::fall_behind() {
  const std::lock_guard lock(mutex_);
  std::erase_if(messages_, [](const Message& message) { return message.kind == StreamKind::kUpdate; });
  messages_.push_back({StreamKind::kBehind, nullptr});
  changed_.notify_all();
}

std::size_t StateSender::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  return size_of(messages_);
}

std::size_t StateSender::size_of(const std::deque<Message>& messages) {
  std::size_t bytes = 0;
  for (const Message& message : messages) bytes += message.bytes ? message.bytes->size() : 0;
  return bytes;
}

void StateSender::run(const std::stop_token& stop) {
  try {
    for (bool is_good = connect(stop); is_good;) {
      const std::optional<Message> message = await_message(stop);
      is_good = message && transmit(*message, stop);
      if (!is_good) break;
      has_state_ = has_state_ || message->kind == StreamKind::kState;
      has_caught_up_ = has_caught_up_ || message->kind == StreamKind::kPresent || message->kind == StreamKind::kBehind;
    }
  } catch (const std::exception& error) {
    log::warning(options_.id, "the state for member {} cannot be sent: {}", taker_.id, error.what());
  }
  has_failed_ = true;
}

std::optional<StateSender::Message> StateSender::await_message(const std::stop_token& stop) {
  const std::chrono::duration<double> interval(options_.heartbeat_timeout_s / kBeatsPerTimeout);
  std::unique_lock lock(mutex_);
  const bool is_behind = !messages_.empty() && messages_.back().kind == StreamKind::kBehind;
  if (has_state_ && !has_caught_up_ && !is_behind && size_of(messages_) <= kPartBytes)
    return Message{StreamKind::kPresent, nullptr};
  while (!changed_.wait_for(lock, stop, interval, [&] { return !messages_.empty(); })) {
    lock.unlock();
    if (stop.stop_requested() || !send_beat(stop)) return std::nullopt;
    lock.lock();
  }
  Message next = std::move(messages_.front());
  messages_.pop_front();
  if (next.kind != StreamKind::kUpdate) return next;
  std::vector<std::byte> records;
  const auto add = [&](const Message& update) {
    const std::uint64_t size = update.bytes->size();
    const auto prefix = bytes_of(size);
    append_bytes(records, prefix);
    append_bytes(records, *update.bytes);
  };
  add(next);
  while (!messages_.empty() && messages_.front().kind == StreamKind::kUpdate && records.size() < kPartBytes) {
    add(messages_.front());
    messages_.pop_front();
  }
  return Message{StreamKind::kUpdate, std::make_shared<const std::vector<std::byte>>(std::move(records))};
}

bool StateSender::connect(const std::stop_token& stop) {
  const Deadline soon = deadline_after(kConnectSeconds);
  SocketResult connection;
  do connection = connect_to(taker_.door, deadline_after(kTrySeconds));
  while (!connection.problem.empty() && !stop.stop_requested() && std::chrono::steady_clock::now() < soon);
  if (!connection.problem.empty()) return false;
  socket_ = std::move(connection.socket);
  Hello hello = hello_of(options_.id, kDonorSize);
  hello.run = taker_.run;
  const auto is_answered = [&] {
    while (!stop.stop_requested() && std::chrono::steady_clock::now() < soon)
      if (wait_for(socket_, POLLIN, deadline_after(kLookSeconds))) return true;
    return false;
  };
  if (!greet(socket_, hello, options_.secret.get(), soon, is_answered).empty()) return false;
  Answer answer{};
  return read(writable_bytes_of(answer), stop) && answer == kAccepted;
}

bool StateSender::transmit(const Message& message, const std::stop_token& stop) {
  std::span<const std::byte> left;
  if (message.bytes) left = *message.bytes;
  for (bool is_last = false; !is_last;) {
    const auto part = left.first(std::min(left.size(), kPartBytes));
    left = left.subspan(part.size());
    is_last = left.empty();
    const Header header{static_cast<std::uint32_t>(message.kind), is_last ? 1U : 0U, part.size()};
    const auto begin = std::chrono::steady_clock::now();
    std::array<std::byte, 1> word{};
    if (!write(bytes_of(header), stop) || !write(part, stop) || !read(word, stop)) return false;
    if (word != kAcknowledgement) return false;
    if (!rest(hurries_ ? 0 : seconds_since(begin) * (1 / share_ - 1), stop)) return false;
  }
  return true;
}

bool StateSender::write(std::span<const std::byte> bytes, const std::stop_token& stop) const {
  return move_all(stop, socket_, bytes, POLLOUT, options_.timeout_s, [&](auto left) {
    return ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

bool StateSender::read(std::span<std::byte> bytes, const std::stop_token& stop) const {
  return move_all(stop, socket_, bytes, POLLIN, options_.timeout_s,
                  [&](auto left) { return ::recv(socket_.get(), left.data(), left.size(), MSG_DONTWAIT); });
}

bool StateSender::rest(double seconds, const std::stop_token& stop) {
  const Deadline end = deadline_after(seconds);
  Deadline beat = deadline_after(options_.heartbeat_timeout_s / kBeatsPerTimeout);
  while (std::chrono::steady_clock::now() < end && !hurries_ && !stop.stop_requested()) {
    std::this_thread::sleep_until(std::min({end, beat, deadline_after(kLookSeconds)}));
    if (std::chrono::steady_clock::now() < beat) continue;
    beat = deadline_after(options_.heartbeat_timeout_s / kBeatsPerTimeout);
    if (!send_beat(stop)) return false;
  }
  return !stop.stop_requested();
}

bool StateSender::send_beat(const std::stop_token& stop) {
  return write(bytes_of(Header{}), stop);
}

StateReceiver::StateReceiver(Member& member, std::uint64_t run, Take take)
    : member_(member),
      take_(std::move(take)),
      thread_([this, run](const std::stop_token& stop) { this->run(stop, run); }) {}

StateReceiver::~StateReceiver() = default;

bool StateReceiver::wait_for_updates(std::uint64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return updates_ >= count || is_over_; });
  return updates_ >= count;
}

void StateReceiver::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void StateReceiver::run(const std::stop_token& stop, std::uint64_t run) {
  const auto is_over = [this] {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  };
  Descriptor door(::fcntl(member_.door().get(), F_DUPFD_CLOEXEC, 0));
  if (!door.valid()) return is_over();
  const double limit = std::max(member_.options().heartbeat_timeout_s, kConnectSeconds + Listener::kGreetingSeconds);
  Listener listener(std::move(door), member_.options().secret.get());
  RunningDeadline silence(deadline_after(limit), kLookSeconds);
  RunningDeadline patience(deadline_after(member_.options().timeout_s), kLookSeconds);
  while (!stop.stop_requested()) {
    std::string starved;
    patience.next_look();
    for (AcceptedConnection& connection : listener.wait(silence.next_look(), starved)) {
      const bool is_donor = connection.hello.size == kDonorSize && connection.hello.run == run;
      if (!write_all(connection.socket, bytes_of(is_donor ? kAccepted : kOtherRun), deadline_after(1)).empty())
        continue;
      if (!is_donor) continue;
      if (follow(stop, connection.socket, connection.hello.rank)) return is_over();
      if (stop.stop_requested()) break;
      member_.ask_again(connection.hello.rank);
      silence = RunningDeadline(deadline_after(limit), kLookSeconds);
      patience = RunningDeadline(deadline_after(member_.options().timeout_s), kLookSeconds);
    }
    if (patience.is_over())
      member_.give_up(fmt::format("no member has come with the state of the run within {} s (comm.timeout_s)",
                                  member_.options().timeout_s));
    if (!silence.is_over()) continue;
    member_.ask_again(member_.id());
    silence = RunningDeadline(deadline_after(limit), kLookSeconds);
  }
  is_over();
}

bool StateReceiver::follow(const std::stop_token& stop, const Descriptor& socket, int donor) {
  std::vector<std::byte> bytes;
  bool is_ready = false;
  {
    const std::lock_guard lock(mutex_);
    updates_ = 0;  // of this donor
  }
  for (;;) {
    Header header;
    if (!read(stop, socket, writable_bytes_of(header))) return is_ready;
    const auto kind = static_cast<StreamKind>(header.kind);
    if (kind > StreamKind::kBehind || header.bytes > StateSender::kPartBytes) return is_ready;
    if (kind == StreamKind::kBeat) continue;
    // Memory grows with the bytes that arrive. The last part is acknowledged when the message is taken.
    const std::size_t begin = bytes.size();
    bytes.resize(begin + header.bytes);
    if (!read(stop, socket, std::span(bytes).subspan(begin))) return is_ready;
    try {
      if (header.is_last != 0) take(kind, donor, bytes);
    } catch (const std::exception& error) {
      log::warning(member_.id(), "member {} sends a state that cannot be taken: {}", donor, error.what());
      return is_ready;
    }
    if (!write_all(socket, kAcknowledgement, deadline_after(member_.options().heartbeat_timeout_s)).empty())
      return is_ready;
    if (header.is_last == 0) continue;
    bytes.clear();
    if (kind != StreamKind::kPresent && kind != StreamKind::kBehind) continue;
    if (!std::exchange(is_ready, true)) member_.say_ready();
  }
}

void StateReceiver::take(StreamKind kind, int donor, std::span<const std::byte> bytes) {
  if (kind != StreamKind::kUpdate) return take_(kind, donor, bytes);
  while (!bytes.empty()) {
    const auto size = take_value<std::uint64_t>(bytes, "an update");
    if (bytes.size() < size) throw DataError("an update is cut off");
    take_(kind, donor, bytes.first(size));
    bytes = bytes.subspan(size);
    const std::lock_guard lock(mutex_);
    ++updates_;
    changed_.notify_all();
  }
}

bool StateReceiver::read(const std::stop_token& stop, const Descriptor& socket, std::span<std::byte> bytes) const {
  return move_all(stop, socket, bytes, POLLIN, member_.options().heartbeat_timeout_s,
                  [&](auto left) { return ::recv(socket.get(), left.data(), left.size(), MSG_DONTWAIT); });
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/tcp/listener.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <span>
#include <string_view>
#include <sys/socket.h>

#include "core/printable.h"
#include "core/program.h"

namespace dragonn::comm {
namespace {

/// Sends a few bytes on a connection that has sent nothing yet, and so has room for them. Returns whether it did.
template <class T>
bool send_now(const Descriptor& socket, const T& value) {
  return ::send(socket.get(), &value, sizeof(value), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(value));
}

bool begins_as_hello(const Hello& hello, std::size_t received) {
  const Hello expected;
  return std::memcmp(hello.magic.data(), expected.magic.data(), std::min(received, expected.magic.size())) == 0;
}

}  // namespace

Hello hello_of(int rank, int size) {
  Hello hello{.rank = rank, .size = size};
  const std::string_view version = dragonn::version();
  std::copy_n(version.begin(), std::min(version.size(), hello.version.size()), hello.version.begin());
  return hello;
}

std::string version_of(const Hello& hello) {
  return printable({hello.version.begin(), std::ranges::find(hello.version, '\0')});
}

std::uint16_t Listener::port() const {
  const auto address = local_address(listener_);
  return static_cast<std::uint16_t>(address ? address->port : 0);
}

Obstacle greet(const Descriptor& socket, Hello hello, const Secret* secret, Deadline deadline,
               const std::function<bool()>& ready) {
  if (secret != nullptr) {
    hello.has_secret = 1;
    hello.nonce = random_nonce();
  }
  std::string problem = write_all(socket, bytes_of(hello), deadline);
  if (!problem.empty() || secret == nullptr) return {problem};
  if (!ready()) return {"no answer"};
  Answer answer{};
  if (problem = read_all(socket, writable_bytes_of(answer), deadline); !problem.empty()) return {problem};
  if (answer == kHasNone) return {"it has no secret (comm.secret_file), and this rank has one", true};
  if (answer != kProve) return {"the process that listens there is not of this program"};
  Challenge challenge{};
  if (problem = read_all(socket, writable_bytes_of(challenge), deadline); !problem.empty()) return {problem};
  if (!secret->accepts(challenge.proof, Secret::Side::kAccepting, bytes_of(hello), challenge.nonce)) {
    static_cast<void>(write_all(socket, Proof{}, deadline));
    return {"it has another secret (comm.secret_file) than this rank", true};
  }
  return {write_all(socket, secret->prove(Secret::Side::kConnecting, bytes_of(hello), challenge.nonce), deadline)};
}

bool Listener::accept_all(std::string& problem) {
  for (;;) {
    SocketResult next = accept_from(listener_);
    if (next.socket.valid()) {
      pending_.push_back({.connection = {std::move(next.socket), {}}, .since = std::chrono::steady_clock::now()});
      continue;
    }
    if (next.problem.empty()) return true;
    if (drop_silent(kStarvedSeconds)) continue;
    if (pending_.empty()) problem = next.problem;
    return false;
  }
}

bool Listener::drop_silent(double seconds) {
  const std::chrono::duration<double> longest(seconds);
  const Deadline now = std::chrono::steady_clock::now();
  return std::erase_if(pending_, [&](const auto& pending) { return now - pending.since > longest; }) > 0;
}

bool Listener::challenge(PendingConnection& pending) {
  const auto& [socket, hello] = pending.connection;
  const bool has_secret = secret_ != nullptr;
  if ((hello.has_secret != 0) != has_secret) {
    send_now(socket, has_secret ? kHasSecret : kHasNone);  // it learns why, if it still reads
    refuse(pending, has_secret ? "no secret (comm.secret_file)" : "a secret (comm.secret_file)");
    return false;
  }
  if (!has_secret) return true;
  pending.challenge = random_nonce();
  const Challenge challenge{pending.challenge,
                            secret_->prove(Secret::Side::kAccepting, bytes_of(hello), pending.challenge)};
  return send_now(socket, kProve) && send_now(socket, challenge);
}

Listener::State Listener::read_more(PendingConnection& pending) {
  Hello& hello = pending.connection.hello;
  for (;;) {
    const bool in_hello = pending.received < sizeof(Hello);
    const std::span<std::byte> rest = in_hello ? writable_bytes_of(hello).subspan(pending.received)
                                               : std::span(pending.proof).subspan(pending.received - sizeof(Hello));
    const ssize_t count = ::recv(pending.connection.socket.get(), rest.data(), rest.size(), 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR ? State::kPending : State::kDropped;
    if (count == 0) return State::kDropped;
    pending.received += static_cast<std::size_t>(count);
    if (!begins_as_hello(hello, pending.received)) return State::kDropped;
    if (in_hello && pending.received == sizeof(Hello) && !challenge(pending)) return State::kDropped;
    if (pending.received < greeting_bytes()) continue;
    const bool proved = secret_ == nullptr ||
                        secret_->accepts(pending.proof, Secret::Side::kConnecting, bytes_of(hello), pending.challenge);
    if (!proved) refuse(pending, "another secret (comm.secret_file)");
    return proved ? State::kGreeted : State::kDropped;
  }
}

void Listener::refuse(const PendingConnection& pending, const char* reason) {
  const auto& [socket, hello] = pending.connection;
  if (refused_.size() < kMaxRefused) refused_.push_back({hello, remote_address(socket), reason});
}

std::vector<AcceptedConnection> Listener::wait(Deadline deadline, std::string& problem) {
  std::vector<AcceptedConnection> accepted;
  problem.clear();
  refused_.clear();
  bool starved = false;
  while (accepted.empty() && problem.empty()) {
    drop_silent(kGreetingSeconds);
    // A listener that cannot accept would be ready all the time.
    std::vector<pollfd> sockets{{starved ? -1 : listener_.get(), POLLIN, 0}};
    for (const PendingConnection& pending : pending_) sockets.push_back({pending.connection.socket.get(), POLLIN, 0});
    const int left = milliseconds_until(deadline);
    if (left == 0) break;
    constexpr int kLookMilliseconds = 100;
    const int ready = ::poll(sockets.data(), sockets.size(), std::min(left, kLookMilliseconds));
    std::vector<PendingConnection> still_there;
    for (std::size_t i = 0; ready > 0 && i < pending_.size(); ++i) {
      PendingConnection& pending = pending_[i];
      const State state = sockets[i + 1].revents != 0 ? read_more(pending) : State::kPending;
      if (state == State::kGreeted) accepted.push_back(std::move(pending.connection));
      if (state == State::kPending) still_there.push_back(std::move(pending));
    }
    if (ready > 0) pending_ = std::move(still_there);
    if (starved || sockets.front().revents != 0) starved = !accept_all(problem);
  }
  return accepted;
}

}  // namespace dragonn::comm

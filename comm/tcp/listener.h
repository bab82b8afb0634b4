// SPDX-License-Identifier: MIT
/// Listener: accepts connections and reads the hello that each begins with.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/deadline.h"
#include "comm/tcp/secret.h"
#include "comm/tcp/socket.h"

namespace dragonn::comm {

/// The first bytes on every connection, in the machine's byte order: all machines of a run have the same.
struct Hello {
  std::array<char, 8> magic = {'d', 'r', 'a', 'g', 'o', 'n', 'n', '2'};
  std::int32_t rank = 0;
  std::int32_t size = 0;              ///< world size that this rank was started with
  std::uint64_t run = 0;              ///< Rendezvous::run
  std::uint64_t token = 0;            ///< of the coordinator; 0 where the rank does not know it yet
  Address listener = {};              ///< where this rank accepts the higher ranks
  std::array<char, 48> version = {};  ///< of the program, truncated
  std::uint64_t has_secret = 0;       ///< 1 if this rank has one, and expects to be challenged
  Nonce nonce = {};                   ///< of this connection, where there is a secret
};
static_assert(std::has_unique_object_representations_v<Hello>, "no padding that would be sent");

/// Returns the hello of this build.
Hello hello_of(int rank, int size);
std::string version_of(const Hello& hello);

/// The first reply to a hello.
using Answer = std::array<char, 8>;
constexpr Answer kAccepted{'w', 'e', 'l', 'c', 'o', 'm', 'e', '1'};
constexpr Answer kOtherRun{'o', 't', 'h', 'e', 'r', 's', ' ', '1'};
constexpr Answer kProve{'p', 'r', 'o', 'v', 'e', ' ', 'i', 't'};      ///< a Challenge follows
constexpr Answer kHasSecret{'s', 'e', 'c', 'r', 'e', 't', ' ', '1'};  ///< the hello says that it has none
constexpr Answer kHasNone{'n', 'o', ' ', 's', 'e', 'c', 'r', '1'};    ///< the hello says that it has a secret

/// The reply of an end with a secret to one that says it has one: the question, and the proof that it may ask.
struct Challenge {
  Nonce nonce;
  Proof proof;
};

/// The reason why a connection does not lead to a rank of this run.
struct [[nodiscard]] Obstacle {
  std::string text = {};    ///< empty: there is none
  bool is_refusal = false;  ///< the other end runs this program, and does not fit

  bool empty() const { return text.empty(); }
};

/// Sends a hello. With a secret, demands and gives the proof of it; the reply to the hello itself is left to the
/// caller. Where the other end has another secret, a proof of nothing (zeros) tells it so.
/// @param hello gets the nonce of this connection.  @param ready waits for a reply; false ends the wait.
/// @return why the other end is none of this run's; empty if it may be.
Obstacle greet(const Descriptor& socket, Hello hello, const Secret* secret, Deadline deadline,
               const std::function<bool()>& ready);

/// A connection whose hello has come.
struct AcceptedConnection {
  Descriptor socket;
  Hello hello;
};

/// A connection of this program that was refused for its secret. Anybody can open one: it ends no run.
struct RefusedConnection {
  Hello hello;
  std::optional<Address> address;  ///< of the other end
  std::string reason;              ///< what the other end has: "another secret (comm.secret_file)"
};

/// Accepts connections. A connection that sends something else than a hello (a port scan), that takes longer than
/// kGreetingSeconds for it, or that does not prove the secret where there is one, is dropped.
class Listener {
 public:
  static constexpr double kGreetingSeconds = 5;
  /// Longest silence of a connection while the system has no more descriptors.
  static constexpr double kStarvedSeconds = 1;
  static constexpr std::size_t kMaxRefused = 1024;

  /// @param secret that every connection must prove; may be null, and else outlives this.
  explicit Listener(Descriptor listener, const Secret* secret = nullptr)
      : listener_(std::move(listener)), secret_(secret) {}

  /// Waits until some connection has been greeted, or until the deadline. Returns those that have, in no order.
  /// @param problem set if the system accepts no more connections; otherwise cleared.
  std::vector<AcceptedConnection> wait(Deadline deadline, std::string& problem);
  /// Returns the connections that the last wait() refused, at most kMaxRefused.
  const std::vector<RefusedConnection>& refused() const { return refused_; }
  std::uint16_t port() const;

 private:
  enum class State { kPending, kGreeted, kDropped };
  /// A connection whose greeting has not come to its end.
  struct PendingConnection {
    AcceptedConnection connection;
    Deadline since;
    std::size_t received = 0;  ///< bytes of the hello and of the proof behind it
    Nonce challenge = {};
    Proof proof = {};
  };

  /// Accepts all that wait. Returns false if the system has no descriptors for them now, and sets the problem if no
  /// time will help.
  bool accept_all(std::string& problem);
  /// Drops the connections that have been pending for longer than this; returns whether there were any.
  bool drop_silent(double seconds);
  /// Reads the bytes that are there, and answers a whole hello.
  State read_more(PendingConnection& pending);
  /// Answers a whole hello where a secret is to be proved, or was said to be there. Returns whether to go on.
  bool challenge(PendingConnection& pending);
  void refuse(const PendingConnection& pending, const char* reason);
  std::size_t greeting_bytes() const { return sizeof(Hello) + (secret_ != nullptr ? sizeof(Proof) : 0); }

  Descriptor listener_;
  const Secret* secret_;
  std::vector<PendingConnection> pending_;
  std::vector<RefusedConnection> refused_;
};

}  // namespace dragonn::comm

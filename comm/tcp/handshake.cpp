// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <optional>
#include <poll.h>
#include <ranges>
#include <span>
#include <string>
#include <sys/socket.h>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/tcp/listener.h"
#include "comm/tcp/socket.h"
#include "comm/tcp/tcp.h"
#include "core/error.h"
#include "core/printable.h"

namespace dragonn::comm {
namespace {

// A rank that found nobody retries with growing pauses: many ranks may ask one name server.
constexpr double kFirstRetrySeconds = 0.02;
constexpr double kLongestRetrySeconds = 0.5;
constexpr double kLookSeconds = 0.2;   // between two looks at the rendezvous file
constexpr double kConnectSeconds = 2;  // for each of several addresses
constexpr double kAnswerSeconds = 5;   // for the reply of a listener, which may be another program
/// Joiners wait this much longer for the verdict than the coordinator takes to reach it.
constexpr double kGraceSeconds = 3;

std::string write_both(const Descriptor& socket, std::span<const std::byte> first, std::span<const std::byte> second,
                       Deadline deadline) {
  const std::string problem = write_all(socket, first, deadline);
  return problem.empty() ? write_all(socket, second, deadline) : problem;
}

std::string write_text(const Descriptor& socket, const std::string& text, Deadline deadline) {
  const std::uint64_t length = text.size();
  return write_both(socket, bytes_of(length), std::as_bytes(std::span(text)), deadline);
}

std::string read_text(const Descriptor& socket, std::string& text, Deadline deadline) {
  constexpr std::uint64_t kLongest = 1 << 16;
  std::uint64_t length = 0;
  std::string problem = read_all(socket, writable_bytes_of(length), deadline);
  if (!problem.empty()) return problem;
  if (length > kLongest) return "the message is not a text";
  text.resize(length);
  problem = read_all(socket, std::as_writable_bytes(std::span(text)), deadline);
  text = printable(text);
  return problem;
}

/// Returns whether the other end has closed the connection.
bool is_closed(const Descriptor& socket) {
  char byte = 0;
  const ssize_t count = ::recv(socket.get(), &byte, 1, MSG_PEEK);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
}

constexpr const char* kGivenUp = "this group is given up";

/// State and helpers that the coordinator and the joiners share.
class Participant {
 public:
  explicit Participant(const TcpOptions& options)
      : options_(options),
        start_(std::chrono::steady_clock::now()),
        sockets_(static_cast<std::size_t>(options.size)),
        listeners_(static_cast<std::size_t>(options.size)) {}

 protected:
  /// Returns the deadline of the rendezvous, later by `steps` times the grace.
  Deadline deadline(int steps = 0) const {
    return start_ +
           (deadline_after(options_.connecting_s() + steps * kGraceSeconds) - std::chrono::steady_clock::now());
  }
  std::string within() const { return fmt::format("within {} s (comm.timeout_s)", options_.connecting_s()); }
  CommError error(const std::string& problem) const {
    return CommError(fmt::format("rank {} of {}, rendezvous over TCP at {}: {}", options_.rank, options_.size,
                                 options_.rendezvous.text(), problem));
  }
  /// Throws the error: a TimeoutError if the problem, of this rank or of another, says that a rank was late.
  [[noreturn]] void fail(const std::string& problem) const {
    const CommError failure = error(problem);
    if (problem.find(within()) != std::string::npos) throw TimeoutError(failure.what());
    throw failure;
  }
  Descriptor& socket_of(int rank) { return sockets_[static_cast<std::size_t>(rank)]; }
  Address& listener_of(int rank) { return listeners_[static_cast<std::size_t>(rank)]; }

  TcpOptions options_;
  Deadline start_;
  std::uint64_t token_ = 0;
  std::vector<Descriptor> sockets_;  // by rank
  std::vector<Address> listeners_;
};

/// Rank 0: accepts the other ranks and sends each the listeners' addresses.
class Coordinator : Participant {
 public:
  explicit Coordinator(const TcpOptions& options) : Participant(options), listener_(listen(), options_.secret.get()) {
    token_ = random_token();
    const Rendezvous& place = options_.rendezvous;
    if (place.by_file())
      published_.emplace(place.file, RendezvousFile{token_, addresses_of_this_machine(listener_.port())});
  }

  std::vector<Descriptor> connect_all() {
    gather();
    tell_verdict(deadline(1));
    introduce();
    hear_reports();
    tell_verdict(deadline(3));
    return std::move(sockets_);
  }

 private:
  Descriptor listen() const {
    if (options_.door) {
      if (Descriptor door(::fcntl(options_.door->get(), F_DUPFD_CLOEXEC, 0)); door.valid()) return door;
      throw error(fmt::format("cannot listen there: {}", std::strerror(errno)));
    }
    SocketResult door = listen_at(options_.rendezvous);
    if (door.problem.empty()) return std::move(door.socket);
    throw error(
        fmt::format("cannot listen there: {}; rank 0 must run on that host, and comm.rendezvous may name another port",
                    door.problem));
  }

  /// Accepts ranks until all have come, the deadline has passed, or kGraceSeconds after the first problem: by then the
  /// other ranks have come, too, and get the same error.
  void gather() {
    Deadline end = deadline();
    while (came_ < options_.size - 1) {
      std::string starved;
      for (AcceptedConnection& connection : listener_.wait(std::min(end, deadline_after(kLookSeconds)), starved)) {
        receive(std::move(connection));
      }
      for (const RefusedConnection& refused : listener_.refused()) remember(refused);
      if (!starved.empty()) note(starved);
      if (options_.is_given_up && options_.is_given_up()) note(kGivenUp);
      if (published_ && !published_->still_there()) note("another run replaced the file");
      if (!problem_.empty()) end = std::min(end, problem_end_);
      if (std::chrono::steady_clock::now() >= end) break;
    }
    if (problem_.empty()) note_missing();
  }

  void note(const std::string& problem) {
    if (!problem_.empty()) return;
    problem_ = problem;
    problem_end_ = deadline_after(kGraceSeconds);
  }

  void note_missing() {
    std::vector<int> missing;
    for (int rank = 1; rank < options_.size; ++rank) {
      if (!socket_of(rank).valid()) missing.push_back(rank);
    }
    if (missing.empty()) return;
    constexpr std::size_t kMax = 3;
    std::string reasons;
    for (const auto& [rank, reason] : refusals_ | std::views::take(kMax)) reasons += "; " + reason;
    if (refusals_.size() > kMax) reasons += fmt::format("; so for {} ranks", refusals_.size());
    note(fmt::format("rank{} {} did not come {}{}", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), within(),
                     reasons));
  }

  bool is_expected(const Hello& hello) const {
    return hello.token == (published_ ? token_ : 0) && hello.run == options_.rendezvous.run;
  }

  /// Keeps the reason why a rank was refused, in case it does not come. It ends no wait: anybody who reaches the port
  /// can say to be a rank.
  void remember(const RefusedConnection& refused) {
    const int rank = refused.hello.rank;
    if (!is_expected(refused.hello) || rank < 1 || rank >= options_.size) return;
    const std::string address = refused.address ? refused.address->text() : "";
    refusals_[rank] =
        fmt::format("a process that says it is rank {} came from {} with {}, and rank 0 has {}", rank,
                    address.substr(0, address.rfind(':')), refused.reason, options_.secret ? "one" : "none");
  }

  void receive(AcceptedConnection connection) {
    const Hello& hello = connection.hello;
    const bool expected = is_expected(hello);
    const Deadline soon = deadline_after(kAnswerSeconds);
    const std::string lost = write_all(connection.socket, bytes_of(expected ? kAccepted : kOtherRun), soon);
    if (!expected || !lost.empty()) return;  // the rank retries, or has ended
    const std::string problem = problem_with(hello);
    if (!problem.empty()) {
      note(problem);
      ++came_;
      return refused_.push_back(std::move(connection.socket));
    }
    if (!socket_of(hello.rank).valid()) ++came_;
    refusals_.erase(hello.rank);
    listener_of(hello.rank) = hello.listener;
    socket_of(hello.rank) = std::move(connection.socket);
  }

  std::string problem_with(const Hello& hello) {
    const std::string version = version_of(hello), own = version_of(hello_of(0, 1));
    if (version != own) return fmt::format("rank {} runs dragonn {}, and rank 0 runs {}", hello.rank, version, own);
    if (hello.size != options_.size)
      return fmt::format("rank {} was started as one of {} ranks, and rank 0 as one of {}", hello.rank, hello.size,
                         options_.size);
    if (hello.rank < 0 || hello.rank >= options_.size)
      return fmt::format("a process was started as rank {} of {}", hello.rank, options_.size);
    // A rank that closed its connection and came again is one process.
    const bool taken = hello.rank == 0 || (socket_of(hello.rank).valid() && !is_closed(socket_of(hello.rank)));
    return taken ? fmt::format("two processes were started as rank {} of {}", hello.rank, options_.size) : "";
  }

  /// Notes, where `lost` is not empty, that a rank's connection ended.
  void note_loss(int rank, const std::string& lost) {
    if (!lost.empty()) note(fmt::format("rank {} left: {}", rank, lost));
  }

  /// Sends the problem, or that there is none, to every rank that came. @throws CommError with the problem.
  void tell_verdict(Deadline end) {
    for (int rank = 1; rank < options_.size; ++rank) {
      if (socket_of(rank).valid()) note_loss(rank, write_text(socket_of(rank), problem_, end));
    }
    // These ranks fail anyway; their loss is no further problem.
    for (const Descriptor& socket : refused_) {
      static_cast<void>(write_text(socket, problem_, deadline_after(kAnswerSeconds)));
    }
    if (!problem_.empty()) fail(problem_);
  }

  void introduce() {
    for (int rank = 1; rank < options_.size; ++rank) {
      note_loss(rank, write_both(socket_of(rank), bytes_of(token_), std::as_bytes(std::span(listeners_)), deadline(1)));
    }
  }

  void hear_reports() {
    for (int rank = 1; rank < options_.size; ++rank) {
      std::string report;
      note_loss(rank, read_text(socket_of(rank), report, deadline(2)));
      if (!report.empty()) note(fmt::format("rank {}: {}", rank, report));
    }
  }

  Listener listener_;
  std::optional<PublishedFile> published_;
  int came_ = 0;
  std::vector<Descriptor> refused_;
  std::map<int, std::string> refusals_;  // reasons, by the rank that did not prove the secret
  std::string problem_;
  Deadline problem_end_;
};

/// Every rank but 0: joins through the coordinator, then connects to the other joiners.
class Joiner : Participant {
 public:
  explicit Joiner(const TcpOptions& options) : Participant(options) {}

  std::vector<Descriptor> connect_all() {
    join();
    hear(1);
    learn_of_others();
    std::string problem = connect_to_lower();
    if (problem.empty()) problem = wait_for_higher();
    require_coordinator(write_text(socket_of(0), problem, deadline(2)));
    hear(4);
    return std::move(sockets_);
  }

 private:
  /// @throws CommError where `lost` says why the connection to rank 0 ended.
  void require_coordinator(const std::string& lost) const {
    if (!lost.empty()) throw error(fmt::format("no message from rank 0: {}", lost));
  }

  /// Retries until rank 0 has accepted this rank.
  void join() {
    std::string problem;
    double pause = kFirstRetrySeconds;
    while (!try_to_join(problem)) {
      if (options_.is_given_up && options_.is_given_up()) fail(kGivenUp);
      if (std::chrono::steady_clock::now() >= deadline()) {
        // A rank 0 that refuses this one ends before long; then nobody is there any more.
        if (!refusal_.empty()) problem = refusal_ == problem ? refusal_ : refusal_ + "; at last: " + problem;
        fail(fmt::format("rank 0 is not there {}: {}", within(), problem));
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
      pause = std::min(2 * pause, kLongestRetrySeconds);
    }
  }

  bool try_to_join(std::string& problem) {
    const Rendezvous& place = options_.rendezvous;
    RendezvousFile file;
    if (place.by_file()) {
      if (problem.empty()) problem = "rank 0 has not written it";  // or it has left, and took the file along
      file = read_file(problem).value_or(file);
    } else {
      file.addresses = resolve(place.address, problem);
    }
    for (const Address& address : file.addresses) {
      const Obstacle obstacle = enter(address, file.token);
      if (obstacle.empty()) return true;
      problem = fmt::format("{}: {}", address.text(), obstacle.text);
      if (obstacle.is_refusal) refusal_ = problem;
    }
    return false;
  }

  /// Reads the rendezvous file. @param problem set if there is one that cannot be read, perhaps for a while.
  std::optional<RendezvousFile> read_file(std::string& problem) const {
    try {
      return RendezvousFile::read(options_.rendezvous.file);
    } catch (const SystemError& error) {
      problem = error.what();
      return std::nullopt;
    }
  }

  /// Connects to rank 0 and sends a hello that names a listener of this rank. The listener is on the interface by which
  /// this rank reached rank 0 where the rendezvous is a loopback address, else on all.
  Obstacle enter(const Address& address, std::uint64_t token) {
    SocketResult connection = connect_to(address, std::min(deadline(), deadline_after(kConnectSeconds)));
    if (!connection.problem.empty()) return {connection.problem};
    Hello hello = hello_of(options_.rank, options_.size);
    hello.run = options_.rendezvous.run;
    hello.token = token;
    hello.listener = local_address(connection.socket).value_or(Address{});
    Address place = hello.listener;
    place.port = 0;
    if (!options_.rendezvous.is_loopback()) place.bytes = {};
    SocketResult listener = listen_on(place);
    if (!listener.problem.empty()) return {fmt::format("cannot listen for the other ranks: {}", listener.problem)};
    listener_.emplace(std::move(listener.socket), options_.secret.get());
    hello.listener.port = listener_->port();

    const Deadline soon = std::min(deadline(), deadline_after(kAnswerSeconds));
    const auto is_answered = [&] { return answers(connection.socket, token, soon); };
    if (Obstacle obstacle = greet(connection.socket, hello, options_.secret.get(), soon, is_answered);
        !obstacle.empty())
      return obstacle;
    if (!is_answered()) return {"no answer"};
    Answer answer{};
    if (std::string lost = read_all(connection.socket, writable_bytes_of(answer), soon); !lost.empty())
      return {std::move(lost)};
    if (answer == kHasSecret) return {"it has a secret (comm.secret_file), and this rank has none", true};
    if (answer == kOtherRun) return {"another run uses this rendezvous", true};
    if (answer != kAccepted) return {"the process that listens there is not rank 0 of this program"};
    socket_of(0) = std::move(connection.socket);
    return {};
  }

  /// Waits for an answer. Stops waiting when the file names another run by now: the listener was then that of an
  /// earlier run.
  bool answers(const Descriptor& socket, std::uint64_t token, Deadline end) const {
    while (!wait_for(socket, POLLIN, std::min(end, deadline_after(kLookSeconds)))) {
      if (std::chrono::steady_clock::now() >= end) return false;
      std::string ignored;
      const auto found = options_.rendezvous.by_file() ? read_file(ignored) : std::nullopt;
      if (found && found->token != token) return false;
    }
    return true;
  }

  /// Receives rank 0's verdict. @throws CommError if it is an error.
  void hear(int steps) {
    std::string verdict;
    require_coordinator(read_text(socket_of(0), verdict, deadline(steps)));
    if (!verdict.empty()) fail(verdict);
  }

  void learn_of_others() {
    require_coordinator(read_all(socket_of(0), writable_bytes_of(token_), deadline(1)));
    require_coordinator(read_all(socket_of(0), std::as_writable_bytes(std::span(listeners_)), deadline(1)));
  }

  /// Returns the address at which this rank reaches another's listener. A rank that gave a loopback address is on rank
  /// 0's machine, so rank 0's address replaces it.
  Address address_of(int rank) {
    Address address = listener_of(rank);
    const auto host = remote_address(socket_of(0));
    if (address.is_loopback() && host && host->family == address.family) address.bytes = host->bytes;
    return address;
  }

  std::string connect_to_lower() {
    Hello hello = hello_of(options_.rank, options_.size);
    hello.token = token_;
    for (int rank = 1; rank < options_.rank; ++rank) {
      const Address address = address_of(rank);
      SocketResult connection = connect_to(address, deadline(1));
      std::string problem = connection.problem;
      if (problem.empty()) {
        problem = greet(connection.socket, hello, options_.secret.get(), deadline(1), [&] {
                    return wait_for(connection.socket, POLLIN, deadline(1));
                  }).text;
      }
      if (!problem.empty()) return fmt::format("rank {} cannot be reached at {}: {}", rank, address.text(), problem);
      socket_of(rank) = std::move(connection.socket);
    }
    return "";
  }

  std::string wait_for_higher() {
    std::string problem;
    int missing = options_.size - 1 - options_.rank;
    while (missing > 0) {
      std::vector<AcceptedConnection> accepted = listener_->wait(deadline(1), problem);
      if (accepted.empty()) return problem.empty() ? "a higher rank did not connect " + within() : problem;
      for (AcceptedConnection& connection : accepted) {
        const Hello& hello = connection.hello;
        const bool expected = hello.token == token_ && hello.rank > options_.rank && hello.rank < options_.size;
        if (!expected || socket_of(hello.rank).valid()) continue;
        socket_of(hello.rank) = std::move(connection.socket);
        --missing;
      }
    }
    return "";
  }

  std::optional<Listener> listener_;
  std::string refusal_;  // the last reason that a process of this program gave
};

}  // namespace

std::vector<Descriptor> connect_ranks(const TcpOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw CommError(fmt::format("rank {} of {} ranks: ranks are numbered from 0", options.rank, options.size));
  }
  if (options.size == 1) return std::vector<Descriptor>(1);
  try {
    if (options.rank == 0) return Coordinator(options).connect_all();
    return Joiner(options).connect_all();
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("rank {} of {}, comm.rendezvous: {}", options.rank, options.size, error.what()));
  }
}

}  // namespace dragonn::comm

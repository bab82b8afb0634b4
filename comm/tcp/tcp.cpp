// SPDX-License-Identifier: MIT
#include "comm/tcp/tcp.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <mutex>
#include <optional>
#include <poll.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/launcher.h"
#include "comm/machine.h"
#include "comm/tcp/frame.h"
#include "core/error.h"

namespace dragonn::comm {
namespace {

/// A rank that is asked which rank it waits for has this much time to answer.
constexpr double kAnswerSeconds = 0.5;

/// Both directions of a connection to another rank.
struct Link {
  explicit Link(Descriptor connection) : socket(std::move(connection)), out(socket.get()), in(socket.get()) {}

  /// Writes and reads as much as is possible without waiting.
  void move() {
    out.write();
    in.read();
    // A rank that takes nothing more, and has sent nothing that is still unread, is gone.
    if (out.is_broken() && !in.can_read() && !in.is_closed()) in.lose("its connection was closed");
  }
  /// Returns the events that poll should wait for; 0 if there are none.
  short events() const { return static_cast<short>((in.can_read() ? POLLIN : 0) | (out.is_pending() ? POLLOUT : 0)); }

  Descriptor socket;
  Outgoing out;
  Incoming in;
};

// The number of a request: the peer, and the message among those of the link.
Request request_of(int peer, std::size_t number, bool is_receive) {
  return {static_cast<std::uint64_t>(peer) << 32U | number, is_receive};
}

class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(const TcpOptions& options, std::vector<Descriptor> connections)
      : rank_(options.rank),
        timeout_s_(options.timeout_s),
        farewell_s_(options.farewell_s),
        polled_(connections.size()) {
    for (Descriptor& connection : connections) {
      links_.push_back(connection.valid() ? std::make_unique<Link>(std::move(connection)) : nullptr);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(links_.size()); }
  std::string backend() const override { return "tcp"; }
  void abort(const std::string& reason) noexcept override {
    try {
      const Lock lock(mutex_);
      if (std::exchange(aborted_, true)) return;
      note_failure(reason);
      send_shutdown(FrameKind::kAbort, failure_);
    } catch (const std::exception& failure) {
      report_unsent(failure);
    }
  }

  /// Collective. Exchanges process ids: later errors name processes of this machine.
  void know_peers() { peers_ = PeerProcesses(*this); }

  // Exactly one of the next two ends the group.

  /// Waits, after `fn` has returned, until it has returned on all ranks. @throws CommError if a rank failed.
  void shut_down() {
    Lock lock(mutex_);
    if (!group_failure().empty()) throw CommError(failure_);
    forget_messages();
    send_shutdown(FrameKind::kEnd, "");
    constexpr const char* kDoing = "shutting down with";
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      Link& other = link(peer);
      waits_for_ = peer;
      const bool is_shut_down = move_for(lock, timeout_s_, [&] {
        const Incoming::End end = other.in.end();
        if (!group_failure().empty() || end == Incoming::End::kFailure) check_group(kDoing, peer);
        return end == Incoming::End::kWell && !other.out.is_pending();
      });
      if (!is_shut_down) fail_late(lock, kDoing, peer);
    }
  }
  /// Reports, after `fn` has thrown, the failure to the ranks that wait for this one (kFailure) or to all (kAbort), and
  /// gives them a few seconds to read it.
  void fail(FrameKind kind, const std::string& reason) noexcept {
    try {
      Lock lock(mutex_);
      forget_messages();
      note_failure(reason);
      if (!std::exchange(aborted_, true)) send_shutdown(kind, failure_);
      for_each_link([&](Link& link) {
        link.out.close();
        move(link);
      });
      const auto is_closed = [](const auto& link) { return link == nullptr || link->in.is_closed(); };
      move_for(lock, farewell_s_, [&] { return std::ranges::all_of(links_, is_closed); });
    } catch (const std::exception& failure) {
      report_unsent(failure);
    }
  }

 protected:
  Request start_send(int destination, int tag, std::span<const std::byte> message) override {
    const Lock lock(mutex_);
    check_group("sending to", destination);
    Link& to = link(destination);
    const std::size_t number = to.out.start(tag, message);
    to.out.write();
    return request_of(destination, number, false);
  }
  Request start_receive(int source, int tag, std::span<std::byte> buffer) override {
    const Lock lock(mutex_);
    return request_of(source, link(source).in.start(tag, buffer), true);
  }
  std::size_t finish(const Request& request) override {
    Lock lock(mutex_);
    const auto peer = static_cast<int>(request.id >> 32U);
    const std::size_t number = request.id & 0xFFFFFFFFU;
    check_request(peer >= 0 && peer < size() && peer != rank_);
    Incoming& in = link(peer).in;
    Outgoing& out = link(peer).out;
    check_request(request.is_receive ? in.knows(number) : out.knows(number));
    if (!request.is_receive) {
      wait(lock, "sending to", peer, [&] { return out.is_done(number); });
      out.release(number);
      return 0;
    }
    wait(lock, "receiving from", peer, [&] { return in.is_done(number); });
    const std::size_t bytes = in.bytes(number), capacity = in.capacity(number);
    in.release(number);
    if (bytes > capacity) throw fatal(too_large(peer, bytes, capacity));
    return bytes;
  }

  void start_notification(int destination, const Notification& notification) override {
    const Lock lock(mutex_);
    check_group("sending to", destination);
    Outgoing& out = link(destination).out;
    out.notify(notification);
    out.write();
  }
  std::optional<Notification> take_notification(int source) override {
    Lock lock(mutex_);
    move(lock, Deadline());
    const int first = source == kAllRanks ? 0 : source, last = source == kAllRanks ? size() - 1 : source;
    for (int peer = first; peer <= last; ++peer) {
      if (peer == rank_) continue;
      if (auto taken = taken_from(peer)) return taken;
      if (link(peer).in.end() != Incoming::End::kWell) check_group("receiving from", peer);
    }
    return std::nullopt;
  }
  std::optional<Notification> finish_notification(int source, const std::function<bool()>& is_interrupted) override {
    Lock lock(mutex_);
    std::optional<Notification> taken;
    // Asked without the lock: who aborts this rank may hold what the answer waits for.
    const auto is_over = [&] {
      lock.unlock();
      const bool interrupted = is_interrupted();
      lock.lock();
      return interrupted;
    };
    wait(lock, "receiving from", source, [&] { return taken || (taken = taken_from(source)) || is_over(); });
    return taken;
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  Link& link(int rank) { return *links_[static_cast<std::size_t>(rank)]; }
  std::optional<Notification> taken_from(int peer) {
    std::optional<Notification> taken = link(peer).in.take_notification();
    if (taken) taken->source = peer;
    return taken;
  }
  template <class Body>
  void for_each_link(const Body& body) {
    for (const auto& link : links_)
      if (link != nullptr) body(*link);
  }
  /// Moves messages until `is_done`. @throws CommError if the group fails, the peer ends, or the deadline passes.
  template <class IsDone>
  void wait(Lock& lock, const char* doing, int peer, const IsDone& is_done) {
    if (is_done()) return;
    waits_for_ = peer;  // stays after an error: others may still ask
    RunningDeadline deadline = deadline_after(timeout_s_);
    move(link(peer));
    while (!is_done()) {
      check_group(doing, peer);
      move(lock, deadline.next_look());
      if (deadline.is_over() && !is_done()) fail_late(lock, doing, peer);
    }
    waits_for_ = kAllRanks;
  }
  /// Waits until messages can be moved, at most until the deadline, and moves them. The lock is released while waiting.
  void move(Lock& lock, Deadline until) {
    for (std::size_t rank = 0; rank < links_.size(); ++rank) {
      const short events = links_[rank] != nullptr ? links_[rank]->events() : short{0};
      polled_[rank] = {events != 0 ? links_[rank]->socket.get() : -1, events, 0};
    }
    lock.unlock();
    const int ready = ::poll(polled_.data(), polled_.size(), milliseconds_until(until));
    lock.lock();
    if (ready <= 0) return;
    for (std::size_t rank = 0; rank < links_.size(); ++rank) {
      if (polled_[rank].revents != 0) move(*links_[rank]);
    }
  }
  /// Moves messages of a link, and answers the question which rank this one waits for.
  void move(Link& link) {
    link.move();
    if (!link.in.take_question()) return;
    const std::string doing = activity().describe();
    link.out.tell(FrameKind::kHere, fmt::format("{} {}{}", waits_for_, doing.empty() ? "waiting" : "at ", doing));
    link.out.write();
  }
  /// Moves messages until `is_done`, at most for that long. Returns whether it is.
  template <class IsDone>
  bool move_for(Lock& lock, double seconds, const IsDone& is_done) {
    RunningDeadline deadline = deadline_after(seconds);
    while (!is_done()) {
      if (deadline.is_over()) return false;
      move(lock, deadline.next_look());
    }
    return true;
  }

  /// Returns the first failure of the group that this rank learns of; empty while there is none.
  const std::string& group_failure() {
    if (!failure_.empty()) return failure_;
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == rank_) continue;
      const Incoming& in = link(rank).in;
      if (in.end() == Incoming::End::kAbort) failure_ = in.end_text();
      if (in.end() == Incoming::End::kLost)
        failure_ = fmt::format("{} has ended: {}", peers_.name(rank), in.end_text());
      if (!failure_.empty()) break;
    }
    return failure_;
  }
  /// Marks the group as failed for this rank, and detaches all messages, whose buffers still exist: the caller that
  /// catches the error frees them. Returns the error.
  template <class Failure>
  Failure fatal(Failure error) {
    if (failure_.empty()) failure_ = error.what();
    for_each_link([](Link& link) {
      link.in.drop();
      link.out.detach();
    });
    return error;
  }
  /// Drops all pending messages, whose buffers may be gone already.
  void forget_messages() {
    for_each_link([](Link& link) {
      link.in.drop();
      link.out.forget();
    });
  }
  /// Records the failure of this rank, unless it knows of one of the group.
  void note_failure(const std::string& reason) {
    if (group_failure().empty()) failure_ = reason.starts_with("rank ") ? reason : failure_text(reason);
  }
  void check_group(const char* doing, int peer) {
    if (!group_failure().empty()) throw fatal(error(doing, peer, failure_));
    const Incoming& in = link(peer).in;
    if (in.end() == Incoming::End::kNone) return;
    failure_ = in.end() == Incoming::End::kFailure ? in.end_text() : fmt::format("rank {} has ended", peer);
    throw fatal(error(doing, peer, failure_));
  }
  [[noreturn]] void fail_late(Lock& lock, const char* doing, int peer) {
    const std::string where = whereabouts(lock, peer);
    const std::string gone = peers_.who_is_gone();
    throw fatal(late(doing, peer, timeout_s_, fmt::format("{}{}{}", where, gone.empty() ? "" : "; ", gone)));
  }
  /// Describes why `peer` is late: asks it which rank it waits for, then asks that rank, and so on.
  std::string whereabouts(Lock& lock, int peer) {
    std::string chain;
    int rank = peer;
    for (int hops = 0; hops < size(); ++hops) {
      Link& asked = link(rank);
      std::optional<std::string> answer;
      asked.in.take_answer();
      asked.out.tell(FrameKind::kWhere, "");
      move(asked);
      move_for(lock, kAnswerSeconds, [&] { return (answer = asked.in.take_answer()).has_value(); });
      if (!answer) return fmt::format("{}rank {} does not answer", chain, rank);
      int next = kAllRanks;
      const auto [end, status] = std::from_chars(answer->data(), answer->data() + answer->size(), next);
      const std::string text = answer->substr(static_cast<std::size_t>(end - answer->data()));
      chain += fmt::format("rank {} is{}", rank, text);
      if (status != std::errc() || next < 0 || next >= size()) return chain;
      chain += fmt::format("{} for rank {}", text.ends_with("waiting") ? "" : ", waiting", next);
      if (next == rank_ || next == peer) return chain;
      chain += "; ";
      rank = next;
    }
    return chain;
  }
  void send_shutdown(FrameKind kind, const std::string& reason) {
    for_each_link([&](Link& link) {
      link.out.tell(kind, reason);
      move(link);
    });
  }

  int rank_;
  double timeout_s_;
  double farewell_s_;
  PeerProcesses peers_;
  std::mutex mutex_;                          // guards all below: abort() may come from another thread
  std::vector<std::unique_ptr<Link>> links_;  // by rank, null for this one
  std::vector<pollfd> polled_;                // by rank; used by the waiting thread only
  std::string failure_;
  bool aborted_ = false;
  int waits_for_ = kAllRanks;
};

}  // namespace

TcpOptions tcp_options(const std::string& rendezvous, double timeout_s, const std::string& secret_file) {
  const auto process = detect_process();
  if (!process || process->size == 0)
    throw ConfigError(
        "comm.backend = \"tcp\" lacks this process's rank: start with srun or mpirun, or set RANK and WORLD_SIZE in "
        "the environment of each process");
  if (process->rank < 0 || process->rank >= process->size)
    throw ConfigError(fmt::format("{} says that this is rank {} of {}: ranks are numbered from 0", process->name,
                                  process->rank, process->size));
  TcpOptions options{.rank = process->rank, .size = process->size, .timeout_s = timeout_s};
  if (options.size > 1) options.rendezvous = find_rendezvous(rendezvous);
  if (!secret_file.empty()) options.secret = std::make_shared<const Secret>(Secret::load(secret_file));
  return options;
}

void run_tcp(const TcpOptions& options, const std::function<void(Communicator&)>& fn) {
  const ScopedRank scope(options.rank);
  TcpCommunicator communicator(options, connect_ranks(options));
  try {
    communicator.know_peers();
    fn(communicator);
    communicator.shut_down();
  } catch (const CommError& failure) {
    communicator.fail(FrameKind::kAbort, failure.what());
    throw;
  } catch (const std::exception& failure) {
    communicator.fail(FrameKind::kFailure, failure.what());
    throw;
  }
}

}  // namespace dragonn::comm

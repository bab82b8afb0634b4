// SPDX-License-Identifier: MIT
#include "comm/local/local.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/local/mailbox.h"
#include "core/error.h"

namespace dragonn::comm {
namespace {

/// The first failure in a group, which all ranks report.
struct Failure {
  int rank = 0;
  std::string text;  ///< Communicator::failure_text()
};

/// State that the ranks share: a mailbox per ordered pair that has sent anything, and how the group ended.
class LocalGroup {
 public:
  static constexpr int kNobody = -1;

  LocalGroup(int size, const LocalOptions& options)
      : size_(size),
        timeout_s_(options.timeout_s),
        activities_(static_cast<std::size_t>(size)),
        left_(static_cast<std::size_t>(size)),
        waits_for_(static_cast<std::size_t>(size)),
        mailboxes_(static_cast<std::size_t>(size) * static_cast<std::size_t>(size)),
        inboxes_(static_cast<std::size_t>(size)) {
    for (std::atomic<int>& peer : waits_for_) peer = kNobody;
    if (!options.network || options.nodes.is_plain()) return;
    links_.emplace(size, *options.network, options.nodes);
    for (int rank = 0; rank < size; ++rank) inbox(rank).share(rank, links());
  }

  int size() const { return size_; }
  double timeout_s() const { return timeout_s_; }
  /// Returns the end of a wait that begins now. Its looks are rare: thousands of threads may wait.
  RunningDeadline deadline(double interval = 1.0) const { return {deadline_after(timeout_s_), interval}; }
  const WallClock& wall_clock() const { return wall_clock_; }
  /// Returns the links that the ranks of a virtual cluster share; null if each has its own.
  SharedNetwork* links() { return links_ ? &*links_ : nullptr; }
  /// Returns the mailbox of a pair, which its first use makes: of many ranks each sends to few others.
  Mailbox& mailbox(int source, int destination) {
    std::atomic<Mailbox*>& place = place_of(source, destination);
    Mailbox* mailbox = place.load(std::memory_order_acquire);
    if (mailbox != nullptr) return *mailbox;
    const std::scoped_lock lock(mutex_);
    mailbox = place.load(std::memory_order_relaxed);
    if (mailbox == nullptr) {
      mailbox = owned_.emplace_back(std::make_unique<Mailbox>(source, destination, links())).get();
      if (failure_ || has_left(source) || has_left(destination)) mailbox->close();
      place.store(mailbox, std::memory_order_release);
    }
    return *mailbox;
  }

  Inbox& inbox(int rank) { return inboxes_[static_cast<std::size_t>(rank)]; }

  /// Sets a rank's activity. Called before the threads start.
  void set_activity(int rank, const Activity& activity) { activities_[static_cast<std::size_t>(rank)] = &activity; }
  void set_waits_for(int rank, int peer) { waits_for_[static_cast<std::size_t>(rank)] = peer; }
  /// Returns the last rank of the chain of waits that begins with `peer`: the one that all of them wait for.
  int culprit(int peer) const {
    int rank = peer;
    for (int hops = 0; hops < size_; ++hops) {
      const int next = waits_for_[static_cast<std::size_t>(rank)];
      if (next == kNobody) return rank;
      rank = next;
    }
    return peer;  // they wait for each other
  }
  /// Describes a rank: "rank 2 is at 'step 11', in barrier".
  std::string whereabouts(int rank) const {
    if (has_left(rank)) return fmt::format("rank {} has ended", rank);
    const std::string activity = activities_[static_cast<std::size_t>(rank)]->describe();
    return fmt::format("rank {} is {}{}", rank, activity.empty() ? "computing" : "at ", activity);
  }

  /// Records a failure. Only the first one counts.
  void fail(Failure failure) {
    const std::scoped_lock lock(mutex_);
    if (failure_) return;
    failure_ = std::move(failure);
    has_failed_ = true;
    for (const auto& mailbox : owned_) mailbox->close();
    for (Inbox& inbox : inboxes_) inbox.wake();
    if (links_) links_->close();
  }
  bool has_failed() const { return has_failed_; }
  /// Returns whether nothing more comes from a rank, and nothing that it gets is taken.
  bool is_over(int rank) const { return has_failed_ || has_left(rank); }
  std::optional<Failure> failure() const {
    const std::scoped_lock lock(mutex_);
    return failure_;
  }
  /// Records that `rank` communicates no more: waiting for it is an error.
  void leave(int rank) {
    const std::scoped_lock lock(mutex_);
    left_[static_cast<std::size_t>(rank)] = true;
    for (int peer = 0; peer < size_; ++peer) {
      for (Mailbox* mailbox : {place_of(rank, peer).load(), place_of(peer, rank).load()}) {
        if (mailbox != nullptr) mailbox->close();
      }
    }
    for (Inbox& inbox : inboxes_) inbox.wake();
    if (links_) links_->leave(rank);
  }

 private:
  std::atomic<Mailbox*>& place_of(int source, int destination) {
    return mailboxes_[static_cast<std::size_t>(source) * static_cast<std::size_t>(size_) +
                      static_cast<std::size_t>(destination)];
  }
  bool has_left(int rank) const { return left_[static_cast<std::size_t>(rank)]; }

  int size_;
  double timeout_s_;
  WallClock wall_clock_;
  std::optional<SharedNetwork> links_;
  std::vector<const Activity*> activities_;
  std::vector<std::atomic<bool>> left_;
  std::vector<std::atomic<int>> waits_for_;       // by rank
  std::vector<std::atomic<Mailbox*>> mailboxes_;  // by source, then destination; null until the pair's first message
  std::vector<Inbox> inboxes_;                    // by rank
  std::atomic<bool> has_failed_ = false;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Mailbox>> owned_;  // in the order of first use
  std::optional<Failure> failure_;
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(LocalGroup& group, int rank, const LocalOptions& options)
      : group_(group), rank_(rank), compute_(options.compute) {
    wall_clock_ = group.wall_clock();
    if (options.network) virtual_.emplace(rank, *options.network, options.compute, group.links());
  }

  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  std::string backend() const override { return "local"; }
  Clock& clock() override { return virtual_ ? virtual_->clock() : Communicator::clock(); }
  const Clock& clock() const override { return virtual_ ? virtual_->clock() : Communicator::clock(); }
  std::unique_ptr<Clock> fork_clock() const override {
    if (virtual_) return std::make_unique<VirtualClock>(compute_);
    return Communicator::fork_clock();
  }

  void abort(const std::string& reason) noexcept override {
    try {
      group_.fail({rank_, failure_text(reason)});
    } catch (const std::exception& failure) {
      report_unsent(failure);
    }
  }

 protected:
  bool supports_size_only() const override { return true; }

  /// Copies the message. Afterwards only virtual time is left to wait for; it is the request's id.
  Request start_send(int destination, int tag, std::span<const std::byte> message) override {
    const SimulatorScope simulating(simulated());
    await_turn("sending to", destination);
    const auto departure = virtual_ ? virtual_->send(destination, message.size()) : VirtualWorker::Departure{};
    group_.set_waits_for(rank_, destination);
    const Mailbox::Result result =
        group_.mailbox(rank_, destination).put(tag, message, departure.first_byte, group_.deadline());
    end_wait("sending to", destination, result, message.size());
    return {std::bit_cast<std::uint64_t>(departure.out), false};
  }

  Request start_receive(int source, int tag, std::span<std::byte> buffer) override {
    const std::uint64_t id = ++requests_;
    pending_.push_back({id, source, tag, buffer, std::nullopt, {}});
    return {id, true};
  }

  std::size_t finish(const Request& request) override {
    const SimulatorScope simulating(simulated());
    if (!request.is_receive) {
      if (virtual_) virtual_->wait_until_out(std::bit_cast<double>(request.id));
      return 0;
    }
    const auto wanted = std::ranges::find(pending_, request.id, &Pending::id);
    check_request(wanted != pending_.end());
    // Messages go to the receives of their pair and tag in the order in which those were started.
    for (auto earlier = pending_.begin(); earlier <= wanted; ++earlier) {
      if (!earlier->received && earlier->source == wanted->source && earlier->tag == wanted->tag) take(*earlier);
    }
    const std::size_t bytes = *wanted->received;
    clock().advance_to(wanted->arrival);
    pending_.erase(wanted);
    return bytes;
  }

  void start_notification(int destination, const Notification& notification) override {
    const SimulatorScope simulating(simulated());
    await_turn("sending to", destination);
    if (group_.is_over(destination)) throw in_vain("sending to", destination);
    group_.inbox(destination).add(notification);
  }
  std::optional<Notification> take_notification(int source) override {
    const SimulatorScope simulating(simulated());
    await_turn("receiving from", source);
    const std::optional<Notification> taken = group_.inbox(rank_).take(source);
    if (!taken && group_.has_failed()) throw in_vain("receiving from", source);
    return taken;
  }
  std::optional<Notification> finish_notification(int source, const std::function<bool()>& is_interrupted) override {
    constexpr double kInterval = 0.05;
    const SimulatorScope simulating(simulated());
    group_.set_waits_for(rank_, source);
    bool interrupted = false;
    const auto is_over = [&] { return group_.is_over(source) || (interrupted = is_interrupted()); };
    const std::optional<Notification> taken = group_.inbox(rank_).wait(source, group_.deadline(kInterval), is_over);
    Mailbox::Status status = group_.is_over(source) ? Mailbox::Status::kClosed : Mailbox::Status::kTimedOut;
    if (taken || interrupted) status = Mailbox::Status::kDone;
    end_wait("receiving from", source, {.status = status}, 0);
    return taken;
  }

 private:
  struct Pending {
    std::uint64_t id;
    int source;
    int tag;
    std::span<std::byte> buffer;
    std::optional<std::size_t> received;
    Moment arrival;  ///< virtual time
  };

  /// Waits for this rank's turn, if the ranks share links.
  void await_turn(const char* doing, int peer) {
    SharedNetwork* const links = group_.links();
    if (links == nullptr || links->await_turn(rank_, clock().now(), group_.deadline())) return;
    if (links->is_closed()) throw in_vain(doing, peer);
    throw late(doing, peer, group_.timeout_s(), "another worker, earlier in virtual time, is computing");
  }

  VirtualWorker* simulated() { return virtual_ ? &*virtual_ : nullptr; }

  void take(Pending& receive) {
    group_.set_waits_for(rank_, receive.source);
    const Mailbox::Result result =
        group_.mailbox(receive.source, rank_).take(receive.tag, receive.buffer, group_.deadline());
    end_wait("receiving from", receive.source, result, receive.buffer.size());
    receive.received = result.bytes;
    if (virtual_) receive.arrival = virtual_->receive(result.stamp, result.bytes);
  }

  /// Ends a wait for `peer`. @throws CommError if it was in vain. The group then still knows whom this rank waited for:
  /// ranks whose deadlines pass a moment later must find what kept this one waiting.
  void end_wait(const char* doing, int peer, const Mailbox::Result& result, std::size_t capacity) {
    if (result.status == Mailbox::Status::kDone) return group_.set_waits_for(rank_, LocalGroup::kNobody);
    if (result.status == Mailbox::Status::kTooLarge) throw too_large(peer, result.bytes, capacity);
    if (result.status == Mailbox::Status::kTimedOut) {
      throw late(doing, peer, group_.timeout_s(), group_.whereabouts(group_.culprit(peer)));
    }
    throw in_vain(doing, peer);
  }
  /// Makes the error of an operation with a peer that has ended, or in a group that has failed.
  CommError in_vain(const char* doing, int peer) const {
    const std::optional<Failure> failure = group_.failure();
    return error(doing, peer, failure ? failure->text : group_.whereabouts(peer));
  }

  LocalGroup& group_;
  int rank_;
  Compute compute_;
  std::optional<VirtualWorker> virtual_;
  std::uint64_t requests_ = 0;
  std::vector<Pending> pending_;
};

/// Runs one rank to its end, good or bad, and tells the group. Returns the exception that `fn` threw.
std::exception_ptr run_rank(LocalGroup& group, LocalCommunicator& communicator,
                            const std::function<void(Communicator&)>& fn) {
  std::exception_ptr thrown;
  const ScopedRank scope(communicator.rank());
  try {
    communicator.clock().attach_to_this_thread();
    fn(communicator);
    group.leave(communicator.rank());
  } catch (const std::exception& failure) {
    thrown = std::current_exception();
    communicator.abort(failure.what());
  } catch (...) {
    thrown = std::current_exception();
    communicator.abort("unknown exception");
  }
  return thrown;
}

}  // namespace

void run_local(int world_size, const LocalOptions& options, const std::function<void(Communicator&)>& fn) {
  if (world_size < 1) throw ConfigError(fmt::format("{} local workers: there must be at least one", world_size));
  LocalGroup group(world_size, options);
  std::vector<std::unique_ptr<LocalCommunicator>> communicators;
  for (int rank = 0; rank < world_size; ++rank) {
    communicators.push_back(std::make_unique<LocalCommunicator>(group, rank, options));
    group.set_activity(rank, communicators.back()->activity());
  }
  std::vector<std::exception_ptr> errors(communicators.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < communicators.size(); ++rank) {
      try {
        threads.emplace_back([&, rank] { errors[rank] = run_rank(group, *communicators[rank], fn); });
      } catch (const std::system_error& failure) {
        errors[rank] = std::make_exception_ptr(SystemError(
            fmt::format("cannot start the thread of local worker {} of {}: {}", rank, world_size, failure.what())));
        communicators[rank]->abort(failure.what());
        break;
      }
    }
  }
  const std::optional<Failure> failure = group.failure();
  if (!failure) return;
  const std::exception_ptr& error = errors[static_cast<std::size_t>(failure->rank)];
  if (error) std::rethrow_exception(error);
  throw CommError(failure->text);
}

}  // namespace dragonn::comm

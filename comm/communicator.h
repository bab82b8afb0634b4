// SPDX-License-Identifier: MIT
/// Communicator: one rank's end of a group, with point-to-point messages, collectives, a clock and traffic counters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/activity.h"
#include "comm/deadline.h"
#include "comm/notification.h"
#include "comm/traffic.h"
#include "core/buffer.h"
#include "core/clock.h"
#include "core/view.h"

namespace dragonn::comm {

class DeviceTransport;  // comm/device_transport.h

/// The first tag of the collectives. Each has its own, so that ranks which disagree on the next one get an error. MPI
/// guarantees tags up to 32767.
inline constexpr int kFirstReservedTag = 16384;

enum ReservedTag : int {
  kTagAllreduce = kFirstReservedTag,
  kTagReduce,
  kTagAllgather,
  kTagBroadcast,
  kTagBarrier,
  kTagSlices,
  kTagPing,
  kTagNotification,
  kTagNode,
};

/// The algorithm of a dense allreduce. kRing and kRabenseifner are this project's own, written on send and recv: every
/// backend gives the same bits. kNative is the backend's own (MPI_Allreduce; on `local` a binomial tree) and makes no
/// such promise.
enum class DenseAlgorithm { kRing, kRabenseifner, kNative };
constexpr auto choices(DenseAlgorithm) {
  return std::array{"ring", "rabenseifner", "native"};
}
/// Parses "ring", "rabenseifner" or "native". @throws ConfigError listing the valid names.
DenseAlgorithm dense_algorithm(const std::string& name);

/// Memory that allreduces keep from call to call.
struct AllreduceScratch {
  Buffer<std::byte> incoming, outgoing;
};

/// A pending message; wait() on the communicator that returned it.
struct Request {
  std::uint64_t id = 0;
  bool is_receive = false;
  int peer = -1;  ///< rank at the other end; set by isend and irecv
  int tag = -1;
  std::int64_t message = -1;  ///< SpanDetail::message, while a timeline records
};

/// The ways of a gather of varying sizes: round a ring, on which every rank passes on what it gets, or with a message
/// from each rank to each other one. Both send the same bytes; on a ring they all pass every link, so that the slowest
/// one decides, and directly each link carries what its own rank has to say, P-1 times.
enum class GatherRoute { kRing, kDirect };
constexpr auto choices(GatherRoute) {
  return std::array{"ring", "direct"};
}

/// The way of data from one rank to another: a message between the two, allgather() of that many bytes from each rank,
/// a gather of varying sizes, or a broadcast.
struct Route {
  enum class Kind { kMessage, kAllgather, kRing, kTree };
  Kind kind = Kind::kMessage;
  std::size_t bytes = 0;
};

/// One rank's end of a group. All ranks call collectives in the same order. Every wait has a deadline
/// (`comm.timeout_s`). One thread at a time uses a communicator. After warm-up nothing here allocates.
/// @throws CommError naming this rank, the peer, the operation and the label set by set_label() when a peer dies, fails
/// or is late. The group is dead afterwards.
class Communicator {
 public:
  static constexpr int kAllRanks = -1;

  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string backend() const = 0;  ///< "local", "mpi"
  /// Returns the rank of the whole group that `rank` is, where this is a part of it (comm/subgroup.h): errors and
  /// timelines name it.
  virtual int rank_in_whole(int rank) const { return rank; }

  // Point to point. Messages between one pair of ranks with one tag arrive in order. A message counts in traffic() on
  // both sides. Tags below kFirstReservedTag are the caller's.

  /// Sends a message; may wait for the receiver. Do not rely on buffering: a backend keeps at most two messages per
  /// pair of ranks that nobody has received, and isend waits for room, too.
  void send(int destination, int tag, View<const std::byte> message);
  /// Receives a message and returns its size in bytes. @throws CommError if the message is larger than `buffer`.
  std::size_t recv(int source, int tag, View<std::byte> buffer);
  /// Starts a send. The message must not change until wait() returns.
  Request isend(int destination, int tag, View<const std::byte> message);
  Request irecv(int source, int tag, View<std::byte> buffer);
  /// Completes a request; returns the bytes received (0 for a send).
  std::size_t wait(Request& request);
  /// Completes the receive of a message of known size. @throws CommError if another number of bytes arrives.
  void wait_exactly(Request& receive, std::size_t bytes);
  /// Receives a message of known size. @throws as wait_exactly.
  void recv_exactly(int source, int tag, View<std::byte> buffer);
  /// Sends to one rank while it receives a message of known size from another (or the same).
  void send_recv(int destination, View<const std::byte> outgoing, int source, View<std::byte> incoming, int tag);

  // Notifications: two words to one rank, at any time, also between the operations of a collective. Those of one pair
  // arrive in the order in which they were sent; they may pass messages and be passed by them. Nobody has to take them.
  // Unread ones take memory. Each counts in traffic(), under Phase::kHeader, when it is sent and when it is taken. On a
  // virtual cluster they cost no time: whether one has come already depends on the real order of threads, so a time
  // that it cost would not follow from the ranks' programs.

  /// Sends a notification; never waits. It may queue behind messages to the same rank that have begun. Like send(), it
  /// is an error where the other rank is known to have ended.
  void notify(int destination, Notification notification);
  /// Takes the oldest notification from `source` that has come, or one from any rank; never waits. In a group
  /// that is known to have failed it throws.
  std::optional<Notification> poll_notification(int source = kAllRanks);
  /// Waits for a notification from that rank, and takes it. Do not wait while that rank may have started more messages
  /// to this one than a backend keeps (send()): the notification may be behind them.
  /// @param is_interrupted is asked several times a second; where it is true, the wait returns none. Empty: never.
  std::optional<Notification> wait_for_notification(int source, const std::function<bool()>& is_interrupted = {});

  // Collectives. Steps and bytes per rank of each are in comm/README.md.

  /// Sums over ranks, in place, with the same bits on every rank. kRing sends 2n(P-1)/P words per rank.
  void allreduce_sum(View<float> values, DenseAlgorithm algorithm = DenseAlgorithm::kRing);
  /// Sums several vectors in as many messages as one; each gets the bits that it would get alone. kNative sums one
  /// after the other. All ranks bring vectors of the same sizes.
  void allreduce_sum(std::span<const std::span<float>> vectors, DenseAlgorithm algorithm = DenseAlgorithm::kRing);
  /// Sums counters and statistics, or takes their maximum, for few values, in ceil(log2 P) messages. Every rank adds up
  /// in rank order, so that all get the same bits.
  void allreduce_sum(std::span<double> values);
  void allreduce_sum(std::span<std::uint64_t> values);
  void allreduce_max(std::span<double> values);
  void allreduce_max(std::span<std::uint64_t> values);
  /// The largest block that is gathered in ceil(log2 P) messages where P is no power of two. Each rank then moves all
  /// blocks to their places, which for larger blocks costs more than the P-1 messages of a ring.
  static constexpr std::size_t kSmallBlock = 4096;
  /// Gathers equal sizes from all ranks: all[r * mine.size() ...] <- rank r's `mine`, which may be its own place in
  /// `all`.
  void allgather(View<const std::byte> mine, View<std::byte> all);
  /// Gathers sizes[r] bytes from rank r, back to back in rank order. `sizes` is known on every rank.
  void allgather_variable(View<const std::byte> mine, std::span<const std::size_t> sizes, View<std::byte> all,
                          GatherRoute route = GatherRoute::kRing);
  /// Gathers messages whose sizes only their senders know: rank r's goes to the place of capacities[r] bytes in `all`,
  /// places back to back in rank order. `mine` is the beginning of its own place.
  /// @param capacities the same on all ranks.
  /// @param on_message is called once for each rank, the own one first, with the message's size; other messages may
  /// still be under way.  @throws CommError if a message is larger than its room.
  void allgather_messages(View<const std::byte> mine, std::span<const std::size_t> capacities, View<std::byte> all,
                          const std::function<void(int rank, std::size_t bytes)>& on_message,
                          GatherRoute route = GatherRoute::kRing);
  /// Returns the ranks that data of `source` passes on its way to this one: the source first, the rank that sends it
  /// here last. For errors: each of them can have changed it.
  std::vector<int> senders(int source, const Route& route) const;
  void broadcast(int root, View<std::byte> bytes);
  /// Broadcasts a message whose size only the root knows: the first `size` bytes of its `buffer`. Returns the size on
  /// all ranks. @param buffer as large on all ranks as any message may be. @throws CommError if a message is larger.
  std::size_t broadcast_variable(int root, View<std::byte> buffer, std::size_t size);
  /// Broadcasts a text of up to kLongestText bytes from `root`. Memory grows with the bytes that come.
  /// @throws CommError if the root announces a longer one.
  void broadcast_text(int root, std::string& text);
  static constexpr std::size_t kLongestText = std::size_t{64} << 20;
  // A text from one rank to another, in the same way. @param max bytes that the receiver takes.
  void send_text(int destination, int tag, const std::string& text);
  std::string recv_text(int source, int tag, std::size_t max);
  void barrier();

  template <class T>
  requires std::is_trivially_copyable_v<T>
  void allgather_values(std::span<const T> mine, std::span<T> all) {
    allgather(as_bytes(mine), as_writable_bytes(all));
  }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void broadcast_value(int root, T& value) { broadcast(root, as_writable_bytes(std::span<T>(&value, 1))); }

  /// Returns the clock of this rank: wall time since the group was formed, or virtual time on a modelled network. A
  /// virtual clock advances with the work of the thread that runs the rank; another thread that is to use the
  /// communicator takes the clock over.
  virtual Clock& clock() { return wall_clock_; }
  virtual const Clock& clock() const { return wall_clock_; }
  double now() const { return clock().now(); }
  /// Returns a second clock of the same kind, for a thread that computes while another communicates. A virtual one
  /// starts at 0; the thread that it measures takes it over.
  virtual std::unique_ptr<Clock> fork_clock() const { return std::make_unique<WallClock>(wall_clock_); }
  /// The bytes and messages of this rank since the start, by phase.
  TrafficCounters& traffic() { return shared_.traffic; }
  const TrafficCounters& traffic() const { return shared_.traffic; }

  /// Sets what this rank is doing ("step 12, bucket 3"), for errors of this rank and of those that wait for it.
  /// Does not allocate; labels are cut after Activity::kLongestLabel characters.
  void set_label(std::string_view label) { shared_.activity.set_label(label); }
  std::string label() const { return shared_.activity.label(); }
  /// Names the purpose of a scope's messages ("oktopk"), for the same errors. `name` must outlive every use.
  [[nodiscard]] ScopedOperation operation(const char* name) { return ScopedOperation(shared_.activity, name); }
  /// Returns the label and operation in progress. May be called from any thread.
  const Activity& activity() const { return shared_.activity; }
  /// The transport for GPU memory; null if all messages are host memory.
  DeviceTransport* device_transport() const { return device_transport_; }
  /// Sets that transport, on all ranks alike. @param transport outlives the communicator, or is replaced by null.
  void set_device_transport(DeviceTransport* transport) { device_transport_ = transport; }
  /// Returns whether messages are size-only now (see ScopedSizeOnly).
  bool is_size_only() const { return shared_.size_only; }

  /// Makes the error of this rank while `doing` ("receiving from") `peer`: one line with ranks, operation and label.
  /// @param peer a rank, or kAllRanks.
  template <class Failure = CommError>
  Failure error(std::string_view doing, int peer, std::string_view reason) const {
    return Failure(error_text(doing, peer, reason));
  }
  /// Makes the error about data of `source` that came on this route.
  CommError bad_data(int source, const Route& route, std::string_view reason) const;

  /// Tells the peers that this rank failed: their pending and later operations throw CommError with `reason`. Never
  /// throws. May be called from any thread.
  virtual void abort(const std::string& reason) noexcept = 0;

  template <class T>
  static View<const std::byte> as_bytes(std::span<const T> values) {
    return View<const std::byte>(std::as_bytes(values));
  }
  template <class T>
  static View<std::byte> as_writable_bytes(std::span<T> values) {
    return View<std::byte>(std::as_writable_bytes(values));
  }

 protected:
  friend class Subgroup;
  /// Makes a part of a group: what this rank does in it counts as done in the whole.
  explicit Communicator(Communicator& whole) : shared_(whole.shared_) {}

  // The functions that a backend supplies. The callers above check the arguments and count the traffic.
  virtual Request start_send(int destination, int tag, std::span<const std::byte> message) = 0;
  virtual Request start_receive(int source, int tag, std::span<std::byte> buffer) = 0;
  /// Waits for a request; returns the bytes received, 0 for a send.
  virtual std::size_t finish(const Request& request) = 0;
  /// Sends a notification without waiting.
  virtual void start_notification(int destination, const Notification& notification) = 0;
  /// Takes the oldest one that has come from `source`, or one from any rank (kAllRanks), without waiting.
  virtual std::optional<Notification> take_notification(int source) = 0;
  /// Waits for one from `source`, and takes it; none if the wait was interrupted.
  virtual std::optional<Notification> finish_notification(int source, const std::function<bool()>& is_interrupted) = 0;
  /// Carries out DenseAlgorithm::kNative; by default by a binomial tree up and down, 2n words per edge.
  virtual void native_allreduce_sum(std::span<float> values);
  /// Returns whether size-only messages may be sent: start_send and start_receive then get spans of a size and no
  /// address.
  virtual bool supports_size_only() const { return false; }

  // The errors and checks that all backends share.

  /// Makes the error of a wait for `peer` that lasted `seconds`. @param where of the late rank, as far as it is known.
  TimeoutError late(std::string_view doing, int peer, double seconds, std::string_view where) const;
  CommError too_large(int source, std::size_t bytes, std::size_t capacity) const;
  /// Checks that a request is known to the backend.
  void check_request(bool is_known) const;
  /// Describes the failure of this rank for the others: "rank 2 failed ('step 12', in allgather): disk full".
  std::string failure_text(std::string_view reason) const;
  /// Reports that the failure notice could not be sent (out of memory). The others then learn it by their deadlines.
  void report_unsent(const std::exception& failure) const noexcept;

  WallClock wall_clock_;

 private:
  friend class ScopedSizeOnly;
  void check_peer(const char* operation, int peer) const;
  void check_size(int source, const Route& route, std::size_t came, std::size_t expected) const;
  std::string error_text(std::string_view doing, int peer, std::string_view reason) const;
  /// The numbers of the next messages, by peer and tag.
  using MessageNumbers = std::map<std::pair<int, int>, std::int64_t>;
  /// The state that a group and its parts share.
  struct Shared {
    TrafficCounters traffic;
    Activity activity;
    bool size_only = false;
    MessageNumbers sent, received;
  };
  /// Returns the number of the next message, and counts it; -1 if the calling thread does not record. All ranks record
  /// the same steps, and no message crosses the end of a step: both ends of a message give it the same number.
  static std::int64_t next_message(MessageNumbers& numbers, int peer, int tag);
  std::size_t place_of(std::size_t rank, std::span<const std::size_t> places, std::size_t bytes) const;
  std::size_t broadcast_tree(int root, std::span<std::byte> buffer, std::size_t size);
  void broadcast_exactly(int root, std::span<std::byte> bytes);
  void check_text(int source, const Route& route, std::uint64_t length, std::uint64_t max) const;
  template <class T, class Combine>
  void reduce_in_rank_order(std::span<T> values, Combine combine);

  Shared own_;
  Shared& shared_ = own_;
  DeviceTransport* device_transport_ = nullptr;
  Buffer<std::byte> scratch_;  // what a reduction receives
  AllreduceScratch allreduce_scratch_;
  std::vector<Request> gathers_;  // of a direct gather
};

/// Makes the messages of a scope size-only: they count, and cost virtual time, as if they had content, but nothing is
/// read, copied or added up. Buffers keep their sizes, their content has no meaning, and memory that is never touched
/// takes no room. All ranks enter and leave together. It serves simulated clusters that are too large for real
/// messages.
class ScopedSizeOnly {
 public:
  /// @param size_only false: the scope changes nothing. @throws Error if it is true and the backend lacks size-only
  /// messages; only `local` has them.
  ScopedSizeOnly(Communicator& communicator, bool size_only);
  ~ScopedSizeOnly() { communicator_.shared_.size_only = previous_; }
  ScopedSizeOnly(const ScopedSizeOnly&) = delete;
  ScopedSizeOnly& operator=(const ScopedSizeOnly&) = delete;

 private:
  Communicator& communicator_;
  bool previous_;
};

}  // namespace dragonn::comm

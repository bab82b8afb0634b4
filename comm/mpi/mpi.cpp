// SPDX-License-Identifier: MIT
#include "comm/mpi/mpi.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <list>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "comm/allreduce.h"
#include "comm/launcher.h"
#include "comm/machine.h"
#include "comm/mpi/call_watch.h"
#include "core/error.h"
#include "core/fault_point.h"

namespace dragonn::comm {
namespace {

/// The largest number of elements that one MPI call takes.
constexpr std::size_t kLargestCount = std::numeric_limits<int>::max();

/// Asks `is_done` until it is (true) or the deadline has passed (false).
///
/// Yields the processor while nothing comes: first only to threads that are ready to run, then by sleeping. Ranks that
/// outnumber the cores would otherwise spin through each other's time slices.
template <class IsDone>
bool poll(Deadline deadline, const IsDone& is_done) {
  constexpr int kYields = 200;
  constexpr std::chrono::microseconds kNap{50};
  for (int round = 0;; ++round) {
    if (is_done()) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (round < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

/// Returns whether a request is done. @param code MPI's status; a failed request is done.
bool test(MPI_Request& request, MPI_Status& status, int& code) {
  int done = 0;
  code = MPI_Test(&request, &done, &status);
  return code != MPI_SUCCESS || done != 0;
}

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

/// Describes a number of bytes to MPI: as that many bytes, or as one element of a type of that size.
class ByteCount {
 public:
  ByteCount(std::size_t bytes, std::size_t largest) {
    if (bytes <= largest) {
      count_ = static_cast<int>(bytes);
      return;
    }
    MPI_Datatype block = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(largest), MPI_BYTE, &block);
    const std::array<int, 2> lengths{static_cast<int>(bytes / largest), static_cast<int>(bytes % largest)};
    const std::array<MPI_Aint, 2> places{0, static_cast<MPI_Aint>(bytes - bytes % largest)};
    const std::array<MPI_Datatype, 2> types{block, MPI_BYTE};
    MPI_Type_create_struct(2, lengths.data(), places.data(), types.data(), &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&block);
    count_ = 1;
  }
  /// Frees the type. Pending messages keep what they need of it.
  ~ByteCount() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  ByteCount(const ByteCount&) = delete;
  ByteCount& operator=(const ByteCount&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_BYTE;
  int count_ = 0;
};

constexpr const char* kTimeout = "comm.timeout_s";

/// Implements send and recv by nonblocking MPI calls with deadlines. It is used between begin_group and finish_group.
class MpiCommunicator final : public Communicator {
 public:
  /// @param hosted the process belongs to another program, which neither abort() nor a deadline must end.
  explicit MpiCommunicator(const MpiOptions& options, bool hosted = false)
      : hosted_(hosted),
        timeout_s_(options.timeout_s),
        largest_count_(std::clamp<std::size_t>(options.largest_count, 1, kLargestCount)),
        owner_(std::this_thread::get_id()) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    notified_.resize(static_cast<std::size_t>(size_));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string backend() const override { return "mpi"; }
  /// Prints the reason and ends all processes. Does not return. Does nothing in a hosted process.
  void abort(const std::string& reason) noexcept override {
    constexpr int kRunFailed = 1;
    if (hosted_) return;
    abort(reason, kRunFailed);
  }
  /// Aborts like abort(reason), with the program's exit code.
  [[noreturn]] void abort(const std::string& reason, int exit_code) noexcept {
    const bool names_itself = reason.starts_with("rank ");  // as CommErrors do
    const std::string prefix = names_itself ? "" : "rank " + std::to_string(rank_) + ": ";
    std::fprintf(stderr, "%s%s\n", prefix.c_str(), reason.c_str());
    std::fflush(stderr);
    // A second thread may get here, which MPI_THREAD_FUNNELED does not allow: the process ends either way.
    const CallWatch watch({"MPI_Abort", timeout_s_, kTimeout, "the launcher"});
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::abort();  // MPI_Abort does not return
  }

  /// Collective. Duplicates MPI_COMM_WORLD, so that no other user of MPI can mix messages into this group's. Exchanges
  /// process ids: from now on a wait ends soon after a process on this machine has.
  void begin_group() {
    fault_point("mpi_dup");
    complete(start("connecting to", kAllRanks, 0,
                   [&](MPI_Request* request) { return MPI_Comm_idup(MPI_COMM_WORLD, &group_, request); }));
    MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN);
    peers_ = PeerProcesses(*this);
  }
  /// Returns whether all ranks call this within `seconds`. A rank that failed uses it to learn whether all others did,
  /// too.
  bool all_arrive_within(double seconds) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status{};
    int code = MPI_Ibarrier(group_, &request);
    return code == MPI_SUCCESS && poll(deadline_after(seconds), [&] { return test(request, status, code); }) &&
           code == MPI_SUCCESS;
  }
  /// Collective. Waits for all ranks and releases what MPI holds; nothing may be called afterwards.
  void finish_group() {
    constexpr const char* kDoing = "ending the group with";
    std::vector<std::uint64_t> notified(notified_.size());
    complete(start(kDoing, kAllRanks, 0, [&](MPI_Request* request) {
      return MPI_Ialltoall(notified_.data(), 1, MPI_UINT64_T, notified.data(), 1, MPI_UINT64_T, group_, request);
    }));
    // MPI may be finalized only when what was sent has been received, also what nobody has asked for.
    const std::uint64_t expected = std::accumulate(notified.begin(), notified.end(), std::uint64_t{0});
    wait(kDoing, kAllRanks, [&] { return receive_notifications() == expected; });
    for (SentNotification& sent : sent_) {
      wait(kDoing, kAllRanks, [&] { return sent.is_done(); });
    }
    fault_point("mpi_free");
    std::optional<CallWatch> watch;
    if (!hosted_) watch.emplace(WatchedCall{"MPI_Comm_free", timeout_s_, kTimeout});
    MPI_Comm_free(&group_);  // Open MPI waits for nobody here; the standard allows it to
  }

 protected:
  Request start_send(int destination, int tag, std::span<const std::byte> message) override {
    const ByteCount bytes(message.size(), largest_count_);
    const Operation& operation = start("sending to", destination, message.size(), [&](MPI_Request* request) {
      return MPI_Isend(message.data(), bytes.count(), bytes.type(), destination, tag, group_, request);
    });
    return {id_of(operation), false};
  }
  Request start_receive(int source, int tag, std::span<std::byte> buffer) override {
    const ByteCount bytes(buffer.size(), largest_count_);
    const Operation& operation = start("receiving from", source, buffer.size(), [&](MPI_Request* request) {
      return MPI_Irecv(buffer.data(), bytes.count(), bytes.type(), source, tag, group_, request);
    });
    return {id_of(operation), true};
  }
  std::size_t finish(const Request& request) override {
    check_thread();
    check_request(request.id < operations_.size() && operations_[request.id].in_use);
    const std::size_t bytes = complete(operations_[request.id]);
    return request.is_receive ? bytes : 0;
  }
  /// The standard promises no room for a message without a receive, so the words stay here until MPI is done with them.
  void start_notification(int destination, const Notification& notification) override {
    check_thread();
    auto sent = std::ranges::find_if(sent_, &SentNotification::is_done);
    if (sent == sent_.end()) sent = sent_.emplace(sent);
    sent->words = {notification.kind, notification.value};
    check(MPI_Isend(sent->words.data(), kWords, MPI_UINT64_T, destination, kTagNotification, group_, &sent->request),
          "sending to", destination, kNotificationBytes);
    ++notified_[static_cast<std::size_t>(destination)];
  }
  std::optional<Notification> take_notification(int source) override {
    receive_notifications();
    return unread_.take(source);
  }
  std::optional<Notification> finish_notification(int source, const std::function<bool()>& is_interrupted) override {
    std::optional<Notification> taken;
    wait("receiving from", source, [&] { return (taken = take_notification(source)) || is_interrupted(); });
    return taken;
  }
  /// Sums by MPI_Iallreduce. What MPI sends cannot be seen, so it is counted as if by a ring: the only nominal count in
  /// this program.
  void native_allreduce_sum(std::span<float> values) override {
    for (std::size_t begin = 0; begin < values.size(); begin += kLargestCount) {
      const std::span<float> part = values.subspan(begin, std::min(kLargestCount, values.size() - begin));
      complete(start("summing with", kAllRanks, 0, [&](MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, part.data(), static_cast<int>(part.size()), MPI_FLOAT, MPI_SUM, group_,
                              request);
      }));
    }
    traffic().add(ring_traffic(values.size(), size_, rank_));
  }

 private:
  /// A pending send or receive; slots are reused.
  struct Operation {
    MPI_Request request = MPI_REQUEST_NULL;
    const char* doing = "";
    int peer = 0;
    std::size_t bytes = 0;
    bool in_use = false;
  };

  static constexpr int kWords = kNotificationBytes / sizeof(std::uint64_t);
  /// A notification that MPI may still be sending.
  struct SentNotification {
    std::array<std::uint64_t, kWords> words{};
    MPI_Request request = MPI_REQUEST_NULL;

    bool is_done() {
      int done = 0;
      return MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
    }
  };

  void check_thread() const {
    DRAGONN_CHECK(std::this_thread::get_id() == owner_,
                  "rank {} uses MPI from a thread other than the one that began it", rank_);
  }
  /// Starts an operation by `call`, which gets the place of its request and returns MPI's status.
  template <class Call>
  Operation& start(const char* doing, int peer, std::size_t bytes, const Call& call) {
    check_thread();
    auto slot = std::ranges::find(operations_, false, &Operation::in_use);
    if (slot == operations_.end()) slot = operations_.insert(slot, Operation{});
    *slot = {MPI_REQUEST_NULL, doing, peer, bytes, true};
    check(call(&slot->request), doing, peer, bytes);
    return *slot;
  }
  std::uint64_t id_of(const Operation& operation) const {
    return static_cast<std::uint64_t>(&operation - operations_.data());
  }
  void check(int code, const char* doing, int peer, std::size_t bytes) const {
    if (code == MPI_SUCCESS) return;
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    if (error_class == MPI_ERR_TRUNCATE) {
      throw error(doing, peer, fmt::format("the message does not fit the {} bytes for it", bytes));
    }
    throw error(doing, peer, mpi_error_text(code));
  }
  /// Receives all notifications that have come. Returns how many have since the start.
  std::uint64_t receive_notifications() {
    check_thread();
    for (;;) {
      int has_come = 0;
      MPI_Status status{};
      check(MPI_Iprobe(MPI_ANY_SOURCE, kTagNotification, group_, &has_come, &status), "receiving from", kAllRanks, 0);
      if (has_come == 0) return received_;
      std::array<std::uint64_t, kWords> words{};
      complete(start("receiving from", status.MPI_SOURCE, sizeof(words), [&](MPI_Request* request) {
        return MPI_Irecv(words.data(), kWords, MPI_UINT64_T, status.MPI_SOURCE, kTagNotification, group_, request);
      }));
      unread_.add({.kind = words[0], .value = words[1], .source = status.MPI_SOURCE});
      ++received_;
    }
  }
  /// Polls until `is_done`. @throws CommError if a process has ended or the deadline passes.
  template <class IsDone>
  void wait(const char* doing, int peer, const IsDone& is_done) {
    RunningDeadline deadline = deadline_after(timeout_s_);
    while (!poll(deadline.next_look(), is_done)) {
      const std::string ended = peers_.who_ended();
      if (!ended.empty()) throw error(doing, peer, ended);
      if (!deadline.is_over()) continue;
      const std::string known = peers_.who_is_gone();
      // Until begin_group has ended no rank knows the others' processes.
      throw late(doing, peer, timeout_s_, known.empty() ? stopped_sibling() : known);
    }
  }
  /// Waits until the operation is done. Returns the bytes of a receive.
  std::size_t complete(Operation& operation) {
    MPI_Status status{};
    int code = MPI_SUCCESS;
    wait(operation.doing, operation.peer, [&] { return test(operation.request, status, code); });
    check(code, operation.doing, operation.peer, operation.bytes);
    operation.in_use = false;
    MPI_Count count = 0;
    MPI_Get_elements_x(&status, MPI_BYTE, &count);
    return static_cast<std::size_t>(count);
  }

  MPI_Comm group_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool hosted_;
  double timeout_s_;
  std::size_t largest_count_;
  PeerProcesses peers_;
  std::thread::id owner_;
  std::vector<Operation> operations_;
  NotificationQueue unread_;
  std::uint64_t received_ = 0;           // notifications, read or unread
  std::list<SentNotification> sent_;     // places are used again; MPI knows their addresses
  std::vector<std::uint64_t> notified_;  // notifications sent, by rank
};

/// Makes Open MPI send TCP messages of more than 64 KiB without asking first. By default it announces such a message
/// and sends the rest once the receiver has answered. If two ranks send to each other, as in most steps of a
/// collective, the answer queues behind the data, and the two take turns instead of sending at the same time. A user's
/// own setting is kept.
void prefer_eager_messages() {
  constexpr int kKeep = 0;
  ::setenv("OMPI_MCA_btl_tcp_eager_limit", "4194304", kKeep);
}

/// Refuses a step of srun that gives MPI no means to find the other processes. Open MPI would end the process itself,
/// in words that do not say what to add.
void check_srun() {
  const auto launcher = detect_launcher();
  if (!launcher || launcher->name != "srun") return;
  for (const char* interface : {"PMIX_RANK", "PMI_RANK", "PMI_FD"}) {
    if (std::getenv(interface) != nullptr) return;
  }
  throw CommError(
      "srun started this process without an interface for MPI: add --mpi=pmix to srun, start with mpirun, or set "
      "comm.backend = \"tcp\"");
}

/// @throws Error where a test asks for it.
void finalize_mpi(double timeout_s) {
  fault_point("mpi_finalize");
  const CallWatch watch({"MPI_Finalize", timeout_s, kTimeout});
  MPI_Finalize();
}

void initialize_mpi(const MpiOptions& options) {
  check_srun();
  prefer_eager_messages();
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) throw CommError("MPI is initialized already: a process can run as an MPI rank only once");
  fault_point("mpi_init");
  int provided = MPI_THREAD_SINGLE;
  {
    const CallWatch watch({"MPI_Init_thread", options.start_timeout_s, "comm.start_timeout_s"});
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
      throw CommError("MPI_Init_thread failed");
    }
  }
  if (provided < MPI_THREAD_FUNNELED) {
    finalize_mpi(options.timeout_s);
    throw CommError(fmt::format("this MPI library offers thread level {} where MPI_THREAD_FUNNELED ({}) is needed",
                                provided, MPI_THREAD_FUNNELED));
  }
}

/// Checks that the launcher and MPI agree on rank and world size.
void check_world(const Communicator& communicator) {
  const auto launcher = detect_launcher();
  if (!launcher || launcher->size == 0 || launcher->size == communicator.size()) return;
  throw CommError(fmt::format(
      "{} started {} processes but MPI sees {}: start with mpirun, or with a launcher that this MPI library knows "
      "(srun --mpi=pmix), or set comm.backend = \"tcp\"",
      launcher->name, launcher->size, communicator.size()));
}

/// Runs `fn` in a group of all ranks. Returns the error if all ranks have one; does not return if only some have.
std::exception_ptr run_rank(MpiCommunicator& communicator, const std::function<void(Communicator&)>& fn) {
  std::exception_ptr error;
  try {
    communicator.begin_group();
    check_world(communicator);
    try {
      fn(communicator);
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& failure) {
      constexpr double kGraceSeconds = 3.0;  // ranks that fail alike may be slow on a busy machine
      if (!communicator.all_arrive_within(kGraceSeconds)) communicator.abort(failure.what(), exit_code(failure));
      error = std::current_exception();
    }
    communicator.finish_group();
    return error;
  } catch (const std::exception& failure) {
    // Pending messages that nobody will take keep MPI from being finalized.
    if (communicator.size() > 1) communicator.abort(failure.what(), exit_code(failure));
    return std::current_exception();
  }
}

}  // namespace

void run_hosted_mpi(const MpiOptions& options, const std::function<void(Communicator&)>& fn) {
  check_srun();
  prefer_eager_messages();
  MpiKeeper& keeper = MpiKeeper::instance();
  keeper.begin();
  keeper.open_group(options.timeout_s);
  try {
    MpiCommunicator communicator(options, /*hosted=*/true);
    const ScopedRank scope(communicator.rank());
    communicator.begin_group();
    check_world(communicator);
    fn(communicator);
    communicator.finish_group();
  } catch (...) {
    keeper.close_group(/*orderly=*/false);  // messages may be pending: the group is left as it is
    throw;
  }
  keeper.close_group(/*orderly=*/true);
}

void run_mpi(const MpiOptions& options, const std::function<void(Communicator&)>& fn) {
  const auto launcher = detect_launcher();
  const ScopedRank launched(launcher ? launcher->rank : 0);
  initialize_mpi(options);
  MpiCommunicator communicator(options);
  const ScopedRank scope(communicator.rank());
  const std::exception_ptr error = run_rank(communicator, fn);
  finalize_mpi(options.timeout_s);
  if (error) std::rethrow_exception(error);
}

bool has_mpi() {
  return true;
}

}  // namespace dragonn::comm

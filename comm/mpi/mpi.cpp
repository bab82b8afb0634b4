// SPDX-License-Identifier: MIT
#include "comm/mpi/mpi.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "comm/allreduce.h"
#include "comm/deadline.h"
#include "comm/launcher.h"
#include "comm/mpi/keeper.h"
#include "comm/peer_processes.h"
#include "core/this_rank.h"

namespace dragonn::comm {
namespace {

/// The largest number of elements that one MPI call takes.
constexpr std::size_t kLargestCount = std::numeric_limits<int>::max();

/// Yields the processor while nothing comes: first only to threads that are ready to run, then by sleeping. Ranks that
/// outnumber the cores would otherwise spin through each other's time slices.
class Patience {
 public:
  void wait() {
    constexpr int kYields = 200;
    constexpr auto kNap = std::chrono::microseconds(50);
    if (++rounds_ <= kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }

 private:
  int rounds_ = 0;
};

/// Tests a request until it is done (true) or the deadline has passed (false). @param code MPI's status.
bool poll(MPI_Request& request, MPI_Status& status, int& code, Deadline deadline) {
  Patience patience;
  for (;;) {
    int done = 0;
    code = MPI_Test(&request, &done, &status);
    if (code != MPI_SUCCESS || done != 0) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    patience.wait();
  }
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

/// Implements send and recv by nonblocking MPI calls with deadlines.
class MpiCommunicator final : public Communicator {
 public:
  /// Collective. Duplicates `world`, so that no other user of MPI can mix messages into this one's.
  /// @param hosted the process belongs to another program, which abort() must not end.
  MpiCommunicator(MPI_Comm world, const MpiOptions& options, bool hosted = false);
  ~MpiCommunicator() override = default;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string backend() const override { return "mpi"; }
  Clock& clock() override { return clock_; }
  const Clock& clock() const override { return clock_; }
  std::unique_ptr<Clock> fork_clock() const override { return std::make_unique<WallClock>(clock_); }
  /// Prints the reason and ends all processes. Does not return. Does nothing in a hosted process.
  void abort(const std::string& reason) noexcept override;
  /// Aborts like abort(reason), with the program's exit code.
  [[noreturn]] void abort(const std::string& reason, int exit_code) noexcept;

  /// Collective. Exchanges process ids: from now on a wait ends soon after a process on this machine has.
  void watch_peers() { peers_ = PeerProcesses(*this); }
  /// Returns whether all ranks call this within `seconds`. A rank that failed uses it to learn whether all others did,
  /// too.
  bool all_arrive_within(double seconds);
  /// Collective. Releases what MPI holds; nothing may be called afterwards.
  void finish_group();

 protected:
  Request start_send(int destination, int tag, std::span<const std::byte> message) override;
  Request start_receive(int source, int tag, std::span<std::byte> buffer) override;
  std::size_t finish(const Request& request) override;
  /// Sums by MPI_Iallreduce. What MPI sends cannot be seen, so it is counted as if by a ring: the only nominal count in
  /// this program.
  void native_allreduce_sum(std::span<float> values) override;

 private:
  /// A pending send or receive; slots are reused.
  struct Operation {
    MPI_Request request = MPI_REQUEST_NULL;
    const char* doing = "";
    int peer = 0;
    std::size_t bytes = 0;
    bool in_use = false;
  };

  void check_thread() const;
  Operation& new_operation(const char* doing, int peer, std::size_t bytes);
  std::uint64_t id_of(const Operation& operation) const;
  void check(int code, const char* doing, int peer, std::size_t bytes) const;
  /// Polls until the operation is done or late. Returns the bytes of a receive.
  std::size_t complete(Operation& operation);

  MPI_Comm group_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool hosted_;
  double timeout_s_;
  std::size_t largest_count_;
  PeerProcesses peers_;
  WallClock clock_;
  std::thread::id owner_;
  std::vector<Operation> operations_;
};

MpiCommunicator::MpiCommunicator(MPI_Comm world, const MpiOptions& options, bool hosted)
    : hosted_(hosted),
      timeout_s_(options.timeout_s),
      largest_count_(std::clamp<std::size_t>(options.largest_count, 1, kLargestCount)),
      owner_(std::this_thread::get_id()) {
  MPI_Comm_dup(world, &group_);
  MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(group_, &rank_);
  MPI_Comm_size(group_, &size_);
}

void MpiCommunicator::abort(const std::string& reason) noexcept {
  constexpr int kRunFailed = 1;
  if (hosted_) return;
  abort(reason, kRunFailed);
}

void MpiCommunicator::abort(const std::string& reason, int exit_code) noexcept {
  const bool names_itself = reason.starts_with("rank ");  // as CommErrors do
  const std::string prefix = names_itself ? "" : "rank " + std::to_string(rank_) + ": ";
  std::fprintf(stderr, "%s%s\n", prefix.c_str(), reason.c_str());
  std::fflush(stderr);
  // A second thread may get here, which MPI_THREAD_FUNNELED does not allow: the process ends either way.
  MPI_Abort(group_, exit_code);
  std::abort();  // MPI_Abort does not return
}

bool MpiCommunicator::all_arrive_within(double seconds) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status{};
  int code = MPI_Ibarrier(group_, &request);
  return code == MPI_SUCCESS && poll(request, status, code, deadline_after(seconds)) && code == MPI_SUCCESS;
}

void MpiCommunicator::finish_group() {
  MPI_Comm_free(&group_);
}

void MpiCommunicator::check_thread() const {
  DRAGONN_CHECK(std::this_thread::get_id() == owner_, "rank {} uses MPI from a thread other than the one that began it",
                rank_);
}

MpiCommunicator::Operation& MpiCommunicator::new_operation(const char* doing, int peer, std::size_t bytes) {
  check_thread();
  auto slot = std::ranges::find(operations_, false, &Operation::in_use);
  if (slot == operations_.end()) slot = operations_.insert(slot, Operation{});
  *slot = {MPI_REQUEST_NULL, doing, peer, bytes, true};
  return *slot;
}

std::uint64_t MpiCommunicator::id_of(const Operation& operation) const {
  return static_cast<std::uint64_t>(&operation - operations_.data());
}

void MpiCommunicator::check(int code, const char* doing, int peer, std::size_t bytes) const {
  if (code == MPI_SUCCESS) return;
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  if (error_class == MPI_ERR_TRUNCATE) {
    throw error(doing, peer, fmt::format("the message does not fit the {} bytes for it", bytes));
  }
  throw error(doing, peer, mpi_error_text(code));
}

Request MpiCommunicator::start_send(int destination, int tag, std::span<const std::byte> message) {
  Operation& operation = new_operation("sending to", destination, message.size());
  const ByteCount bytes(message.size(), largest_count_);
  const int code = MPI_Isend(message.data(), bytes.count(), bytes.type(), destination, tag, group_, &operation.request);
  check(code, operation.doing, destination, message.size());
  return {id_of(operation), false};
}

Request MpiCommunicator::start_receive(int source, int tag, std::span<std::byte> buffer) {
  Operation& operation = new_operation("receiving from", source, buffer.size());
  const ByteCount bytes(buffer.size(), largest_count_);
  const int code = MPI_Irecv(buffer.data(), bytes.count(), bytes.type(), source, tag, group_, &operation.request);
  check(code, operation.doing, source, buffer.size());
  return {id_of(operation), true};
}

std::size_t MpiCommunicator::finish(const Request& request) {
  check_thread();
  DRAGONN_CHECK(request.id < operations_.size() && operations_[request.id].in_use,
                "rank {} waits for a request that it does not have", rank_);
  const std::size_t bytes = complete(operations_[request.id]);
  return request.is_receive ? bytes : 0;
}

std::size_t MpiCommunicator::complete(Operation& operation) {
  MPI_Status status{};
  int code = MPI_SUCCESS;
  RunningDeadline deadline = deadline_after(timeout_s_);
  while (!poll(operation.request, status, code, deadline.next_look())) {
    const std::string ended = peers_.who_ended();
    if (!ended.empty()) throw error(operation.doing, operation.peer, ended);
    if (!deadline.is_over()) continue;
    const std::string gone = peers_.who_is_gone();
    const CommError late =
        error(operation.doing, operation.peer,
              fmt::format("nothing for {} s (comm.timeout_s){}{}", timeout_s_, gone.empty() ? "" : "; ", gone));
    throw TimeoutError(late.what());
  }
  check(code, operation.doing, operation.peer, operation.bytes);
  operation.in_use = false;
  MPI_Count count = 0;
  MPI_Get_elements_x(&status, MPI_BYTE, &count);
  return static_cast<std::size_t>(count);
}

void MpiCommunicator::native_allreduce_sum(std::span<float> values) {
  for (std::size_t begin = 0; begin < values.size(); begin += kLargestCount) {
    const std::span<float> part = values.subspan(begin, std::min(kLargestCount, values.size() - begin));
    Operation& operation = new_operation("summing with", kAllRanks, 0);
    const int code = MPI_Iallreduce(MPI_IN_PLACE, part.data(), static_cast<int>(part.size()), MPI_FLOAT, MPI_SUM,
                                    group_, &operation.request);
    check(code, operation.doing, operation.peer, part.size_bytes());
    complete(operation);
  }
  traffic().add(ring_traffic(values.size(), size_, rank_));
}

/// Makes Open MPI send TCP messages of more than 64 KiB without asking first. By default it announces such a message
/// and sends the rest once the receiver has answered. If two ranks send to each other, as in most steps of a
/// collective, the answer queues behind the data, and the two take turns instead of sending at the same time. A user's
/// own setting is kept.
void prefer_eager_messages() {
  constexpr int kKeep = 0;
  ::setenv("OMPI_MCA_btl_tcp_eager_limit", "4194304", kKeep);
}

/// Ends the process if MPI has not started in time. MPI_Init_thread itself waits without a deadline.
class StartWatch {
 public:
  explicit StartWatch(double seconds)
      : thread_([this, seconds](const std::stop_token& stop) { watch(stop, seconds); }) {}

 private:
  void watch(const std::stop_token& stop, double seconds) {
    RunningDeadline deadline = deadline_after(seconds);
    std::unique_lock lock(mutex_);
    do {
      stopped_.wait_until(lock, stop, deadline.next_look(), [] { return false; });
      if (stop.stop_requested()) return;
    } while (!deadline.is_over());
    const auto launcher = detect_launcher();
    const std::string stopped = stopped_sibling();
    std::fprintf(stderr,
                 "rank %d: MPI has not started within %g s (comm.start_timeout_s): MPI_Init_thread waits for the other "
                 "processes of the launch%s\n",
                 launcher ? launcher->rank : 0, seconds, stopped.empty() ? "" : ("; " + stopped).c_str());
    std::fflush(stderr);
    std::_Exit(1);  // no destructor may run while the main thread is inside of MPI
  }

  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

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

void initialize_mpi(double timeout_s) {
  check_srun();
  prefer_eager_messages();
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) throw CommError("MPI is initialized already: a process can run as an MPI rank only once");
  int provided = MPI_THREAD_SINGLE;
  {
    const StartWatch watch(timeout_s);
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
      throw CommError("MPI_Init_thread failed");
    }
  }
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
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

/// Handles the failure of this rank. Returns if all ranks failed at about the same time, else ends all processes.
void end_after(MpiCommunicator& communicator, const std::string& reason, int exit_code) {
  constexpr double kGraceSeconds = 3.0;  // ranks that fail alike may be slow on a busy machine
  if (!communicator.all_arrive_within(kGraceSeconds)) communicator.abort(reason, exit_code);
}

/// Runs `fn`. Returns the error if all ranks have one; does not return if only some have.
std::exception_ptr run_rank(MpiCommunicator& communicator, const std::function<void(Communicator&)>& fn) {
  const ScopedRank scope(communicator.rank());
  try {
    check_world(communicator);
    communicator.watch_peers();
    fn(communicator);
  } catch (const CommError& failure) {
    // Pending messages that nobody will take keep MPI from being finalized.
    if (communicator.size() > 1) communicator.abort(failure.what(), exit_code(failure));
    return std::current_exception();
  } catch (const std::exception& failure) {
    end_after(communicator, failure.what(), exit_code(failure));
    return std::current_exception();
  }
  return nullptr;
}

/// Runs `fn` and ends the group. Messages may be pending after an error: the group is then left as it is.
void run_hosted_rank(const MpiOptions& options, const std::function<void(Communicator&)>& fn) {
  MpiCommunicator communicator(MPI_COMM_WORLD, options, /*hosted=*/true);
  const ScopedRank scope(communicator.rank());
  check_world(communicator);
  communicator.watch_peers();
  fn(communicator);
  communicator.finish_group();
}

}  // namespace

void run_hosted_mpi(const MpiOptions& options, const std::function<void(Communicator&)>& fn) {
  check_srun();
  prefer_eager_messages();
  MpiKeeper& keeper = MpiKeeper::instance();
  keeper.begin();
  keeper.open_group();
  try {
    run_hosted_rank(options, fn);
  } catch (...) {
    keeper.close_group(/*orderly=*/false);
    throw;
  }
  keeper.close_group(/*orderly=*/true);
}

void run_mpi(const MpiOptions& options, const std::function<void(Communicator&)>& fn) {
  initialize_mpi(options.start_timeout_s);
  std::exception_ptr error;
  {
    MpiCommunicator communicator(MPI_COMM_WORLD, options);
    error = run_rank(communicator, fn);
    communicator.finish_group();
  }
  MPI_Finalize();
  if (error) std::rethrow_exception(error);
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "library/rank_thread.h"

#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "comm/deadline.h"
#include "comm/launcher.h"
#include "comm/local/local.h"
#include "comm/mpi/mpi.h"
#include "comm/tcp/tcp.h"
#include "core/error.h"

namespace dragonn::library {
namespace {

using trainer::Backend;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

bool in_torchrun() {
  return std::getenv("TORCHELASTIC_RUN_ID") != nullptr;
}

Backend choose_backend(Backend wanted) {
  if (wanted != Backend::kAuto) return wanted;
  // torchrun comes first: mpirun or srun may have started it, once on each host.
  if (in_torchrun()) return Backend::kTcp;
  if (comm::has_mpi() && comm::launched_by_mpi()) return Backend::kMpi;
  return comm::detect_process() ? Backend::kTcp : Backend::kLocal;
}

/// Returns the rendezvous. Under torchrun MASTER_PORT is the port of torch's store, so the next one is taken.
std::string choose_rendezvous(const std::string& given) {
  const char* const host = std::getenv("MASTER_ADDR");
  const char* const port = std::getenv("MASTER_PORT");
  if (!given.empty() || !in_torchrun() || host == nullptr || port == nullptr) return given;
  constexpr int kLastPort = 65535, kFirstPort = 1024;
  const int taken = std::atoi(port);
  const bool bare_ipv6 = std::string(host).find(':') != std::string::npos && *host != '[';
  return fmt::format(fmt::runtime(bare_ipv6 ? "tcp:[{}]:{}" : "tcp:{}:{}"), host,
                     taken < kLastPort ? taken + 1 : kFirstPort);
}

/// Refuses MPI in a child of the process that has begun to use it.
void check_mpi_is_own() {
  static const ::pid_t first = ::getpid();
  if (first == ::getpid()) return;
  throw ConfigError(fmt::format(
      "comm.backend = \"mpi\": process {}, which forked this process, {}, uses MPI, and it cannot be shared: expected "
      "\"tcp\" or \"local\"",
      first, ::getpid()));
}

}  // namespace

Connection choose_connection(const trainer::CommConfig& config, const std::string& rendezvous) {
  if (!rendezvous.empty()) comm::parse_rendezvous(rendezvous);
  switch (choose_backend(config.backend)) {
    case Backend::kMpi: {
      check_mpi_is_own();
      const comm::MpiOptions options{.timeout_s = config.timeout_s, .start_timeout_s = config.start_timeout_s};
      return {[options](const Connection::RankFunction& fn) { comm::run_hosted_mpi(options, fn); },
              config.start_timeout_s};
    }
    case Backend::kTcp: {
      const std::string& given = config.rendezvous.empty() ? rendezvous : config.rendezvous;
      const auto options = comm::tcp_options(choose_rendezvous(given), config.timeout_s, config.secret_file);
      return {[options](const Connection::RankFunction& fn) { comm::run_tcp(options, fn); }, kUnlimited};
    }
    default: {
      const comm::LocalOptions options{.timeout_s = config.timeout_s};
      return {[options](const Connection::RankFunction& fn) { comm::run_local(1, options, fn); }, kUnlimited};
    }
  }
}

/// The state that a caller and the thread share.
struct RankThread::Shared {
  enum class State { kConnecting, kBusy, kIdle, kEnded };

  std::mutex mutex;
  std::condition_variable changed;
  State state = State::kConnecting;
  bool is_abandoned = false;   // nobody waits for the connection any more
  bool wants_end = false;      // finish() or abort() was called
  std::string abort_reason;    // of abort()
  std::function<void()> task;  // null: none
  std::exception_ptr error;    // of the last task, or of the group's end
  std::string end_text;        // the reason why the group has ended; empty if it ended in order
  std::thread thread;

  /// Waits until the state is none of those in which the thread is at work.
  void wait_for_answer(std::unique_lock<std::mutex>& lock) {
    changed.wait(lock, [this] { return state == State::kIdle || state == State::kEnded; });
  }
  void set(State next) {
    state = next;
    changed.notify_all();
  }
  /// Runs tasks until the end is wanted. @throws the CommError of a task, or an Error for abort().
  void serve(std::unique_lock<std::mutex>& lock) {
    for (;;) {
      changed.wait(lock, [this] { return task || wants_end; });
      if (!task) {
        if (!abort_reason.empty()) throw Error(abort_reason);
        return;
      }
      const std::function<void()> current = std::exchange(task, nullptr);
      lock.unlock();
      std::exception_ptr failure;
      try {
        current();
      } catch (const CommError&) {
        throw;
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      error = failure;
      set(State::kIdle);
    }
  }
  /// Sets up and serves, as the rank of a connected group.
  void run_rank(comm::Communicator& communicator, const RankFunction& set_up) {
    {
      const std::lock_guard lock(mutex);
      if (is_abandoned) throw CommError("the other ranks came too late");
      set(State::kBusy);
    }
    std::exception_ptr failure;
    try {
      set_up(communicator);
    } catch (const comm::CollectiveError&) {
      failure = std::current_exception();
    }
    std::unique_lock lock(mutex);
    error = failure;
    if (failure) return;
    set(State::kIdle);
    serve(lock);
  }
  [[noreturn]] void fail_ended() const { throw CommError(fmt::format("the group has ended: {}", end_text)); }
  /// Makes the thread end. @param reason of abort(), or empty.
  void want_end(const std::string& reason) {
    const std::lock_guard lock(mutex);
    if (!wants_end) abort_reason = reason;
    wants_end = true;
    changed.notify_all();
  }
  /// Notes that the group has ended.
  void end(const std::exception_ptr& failure) {
    const std::lock_guard lock(mutex);
    if (failure) {
      error = failure;
      try {
        std::rethrow_exception(failure);
      } catch (const std::exception& reason) {
        end_text = reason.what();
      }
    }
    set(State::kEnded);
  }
};

RankThread::RankThread(const Connection& connection, RankFunction set_up, std::function<void()> clean_up)
    : shared_(std::make_shared<Shared>()) {
  shared_->thread = std::thread(
      [shared = shared_, connect = connection.connect, set_up = std::move(set_up), clean_up = std::move(clean_up)] {
        std::exception_ptr failure;
        try {
          connect([&](comm::Communicator& communicator) {
            try {
              shared->run_rank(communicator, set_up);
            } catch (...) {
              clean_up();
              throw;
            }
            clean_up();
          });
        } catch (...) {
          failure = std::current_exception();
        }
        shared->end(failure);
      });
  std::unique_lock lock(shared_->mutex);
  const auto is_connected = [this] { return shared_->state != Shared::State::kConnecting; };
  if (!shared_->changed.wait_until(lock, comm::deadline_after(connection.seconds), is_connected)) {
    shared_->is_abandoned = true;
    shared_->thread.detach();
    throw comm::TimeoutError(fmt::format(
        "the processes of the launch have not come together within {} s (comm.start_timeout_s)", connection.seconds));
  }
  shared_->wait_for_answer(lock);
  if (shared_->state != Shared::State::kEnded) return;
  lock.unlock();
  shared_->thread.join();
  std::rethrow_exception(shared_->error);
}

RankThread::~RankThread() {
  abort("the exchange was not ended");
}

void RankThread::run(const std::function<void()>& task) {
  start(task);
  wait();
}

void RankThread::start(std::function<void()> task) {
  const std::scoped_lock lock(shared_->mutex);
  if (shared_->state == Shared::State::kEnded) shared_->fail_ended();
  shared_->error = nullptr;
  shared_->task = std::move(task);
  shared_->set(Shared::State::kBusy);
}

bool RankThread::is_idle() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->state == Shared::State::kIdle || shared_->state == Shared::State::kEnded;
}

void RankThread::wait() {
  std::unique_lock lock(shared_->mutex);
  shared_->wait_for_answer(lock);
  if (shared_->error) std::rethrow_exception(shared_->error);
}

void RankThread::finish() {
  shared_->want_end("");
  if (!shared_->thread.joinable()) return;
  shared_->thread.join();
  if (!shared_->end_text.empty()) shared_->fail_ended();
}

void RankThread::abort(const std::string& reason) noexcept {
  shared_->want_end(reason);
  if (shared_->thread.joinable()) shared_->thread.join();
}

}  // namespace dragonn::library

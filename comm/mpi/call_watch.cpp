// SPDX-License-Identifier: MIT
#include "comm/mpi/call_watch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include <fmt/format.h>
#include <mpi.h>

#include "comm/launcher.h"
#include "comm/machine.h"
#include "core/error.h"

namespace dragonn::comm {

std::string describe_late(const WatchedCall& call) {
  const auto launcher = detect_launcher();
  const std::string stopped = stopped_sibling();
  return fmt::format("rank {}: {} has not returned within {} s ({}): it waits for {}{}{}",
                     launcher ? launcher->rank : 0, call.name, call.timeout_s, call.setting, call.waits_for,
                     stopped.empty() ? "" : "; ", stopped);
}

void CallWatch::watch(const std::stop_token& stop) {
  RunningDeadline deadline = deadline_after(call_.timeout_s);
  {
    std::unique_lock lock(mutex_);
    do {
      stopped_.wait_until(lock, stop, deadline.next_look(), [] { return false; });
      if (stop.stop_requested()) return;
    } while (!deadline.is_over());
  }
  std::fprintf(stderr, "%s\n", describe_late(call_).c_str());
  std::fflush(stderr);
  constexpr int kRunFailed = 1;
  std::_Exit(kRunFailed);  // no destructor may run while another thread is inside of MPI
}

MpiKeeper& MpiKeeper::instance() {
  // Never destroyed: its thread may outlive static objects.
  static MpiKeeper* const keeper = new MpiKeeper;
  return *keeper;
}

void MpiKeeper::begin() {
  std::unique_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (has_begun_) return;
  has_begun_ = true;
  try {
    int initialized = 0, provided = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialized);
    if (initialized != 0) {
      MPI_Query_thread(&provided);
      return check_level(provided);
    }
    std::thread([this, &provided] { keep(provided); }).detach();
    changed_.wait(lock, [this] { return state_ == State::kRunning; });
    process_ = ::getpid();
    std::atexit(at_exit);
    check_level(provided);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void MpiKeeper::check_level(int provided) {
  if (provided >= MPI_THREAD_MULTIPLE) return;
  throw CommError(fmt::format(
      "MPI is initialized with thread level {} where MPI_THREAD_MULTIPLE ({}) is needed, because an exchange has a "
      "thread of its own: initialize MPI with it, or leave that to dragonn, or set comm.backend = \"tcp\"",
      provided, MPI_THREAD_MULTIPLE));
}

void MpiKeeper::keep(int& provided) {
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);  // ends the process where it fails
  std::unique_lock lock(mutex_);
  state_ = State::kRunning;
  changed_.notify_all();
  changed_.wait(lock, [this] { return state_ == State::kEnding; });
  lock.unlock();
  MPI_Finalize();
  lock.lock();
  state_ = State::kFinalized;
  changed_.notify_all();
}

void MpiKeeper::open_group(double timeout_s) {
  const std::lock_guard lock(mutex_);
  ++open_groups_;
  timeout_s_ = std::max(timeout_s_, timeout_s);
}

void MpiKeeper::close_group(bool orderly) {
  const std::lock_guard lock(mutex_);
  --open_groups_;
  is_orderly_ = is_orderly_ && orderly;
}

void MpiKeeper::at_exit() {
  instance().end();
}

void MpiKeeper::end() {
  if (::getpid() != process_) return;  // a forked child has no thread that keeps MPI
  std::unique_lock lock(mutex_);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0 || !is_orderly_ || open_groups_ > 0) return;
  state_ = State::kEnding;
  changed_.notify_all();
  RunningDeadline deadline = deadline_after(timeout_s_);
  do {
    if (changed_.wait_until(lock, deadline.next_look(), [this] { return state_ == State::kFinalized; })) return;
  } while (!deadline.is_over());
  std::fprintf(stderr, "%s\n", describe_late({"MPI_Finalize", timeout_s_, "comm.timeout_s"}).c_str());
}

}  // namespace dragonn::comm

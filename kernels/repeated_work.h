// SPDX-License-Identifier: MIT
/// RepeatedWork: work that is the same every time, which a GPU records once and then replays.
#pragma once

#include <memory>
#include <string>

#include "core/device.h"
#include "core/error.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// Records the work that a thread gives to a device; a device's kernels supply it (CUDA graphs).
class WorkRecorder {
 public:
  WorkRecorder() = default;
  virtual ~WorkRecorder() = default;
  WorkRecorder(const WorkRecorder&) = delete;
  WorkRecorder& operator=(const WorkRecorder&) = delete;

  /// Begins recording: until end(), the work of this thread is recorded and not done. It must not wait, nor allocate
  /// memory on the device.
  virtual void begin() = 0;
  /// Ends recording. @throws DeviceError if something could not be recorded.
  virtual void end() = 0;
  /// Ends recording and drops what was recorded.
  virtual void cancel() noexcept = 0;
  /// Replays the recorded work, in this thread's order.
  virtual void repeat() = 0;
};

/// The recorders; null on the CPU, which records nothing.
extern Operation<std::unique_ptr<WorkRecorder>(const Device&)> make_work_recorder;

/// Runs work that is the same every time. The first run is done directly: libraries choose algorithms then, and memory
/// grows. The second is recorded and replayed, as are all after it. Work that has no recorder, or cannot be recorded,
/// is done directly every time.
/// A replay costs the host one call, instead of one per kernel.
class RepeatedWork {
 public:
  /// @param records work is recorded if the device can.
  explicit RepeatedWork(const Device& device, bool records = true)
      : recorder_(records ? make_work_recorder(device) : nullptr) {}

  /// Runs the work. @param work gives the device the same, with the same addresses and values, since the last call of
  /// forget().
  template <class Work>
  void run(const Work& work) {
    if (recorder_ == nullptr || !was_run_) {
      work();
      was_run_ = true;
    } else if (is_recorded_ || record(work)) {
      recorder_->repeat();
    } else {
      work();
    }
  }
  /// Makes the next run record anew, because the work's data has moved.
  void forget() { is_recorded_ = false; }
  /// Returns why the work could not be recorded; empty if it could, or was not tried.
  const std::string& obstacle() const { return obstacle_; }

 private:
  template <class Work>
  bool record(const Work& work) {
    try {
      recorder_->begin();
      work();
      recorder_->end();
      is_recorded_ = true;
    } catch (const DeviceError& error) {
      recorder_->cancel();
      recorder_.reset();
      obstacle_ = error.what();
    } catch (...) {
      recorder_->cancel();
      throw;
    }
    return is_recorded_;
  }

  std::unique_ptr<WorkRecorder> recorder_;
  bool was_run_ = false;
  bool is_recorded_ = false;
  std::string obstacle_;
};

}  // namespace dragonn::kernels

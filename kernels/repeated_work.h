// SPDX-License-Identifier: MIT
/// RepeatedWork: work that is the same every time, which a GPU is told once and then starts as one.
#pragma once

#include <memory>
#include <string>

#include "core/device.h"
#include "core/error.h"
#include "kernels/device_table.h"

namespace dragonn::kernels {

/// Writes down what a thread asks a device for; a device's kernels supply it (CUDA graphs).
class WorkRecorder {
 public:
  WorkRecorder() = default;
  virtual ~WorkRecorder() = default;
  WorkRecorder(const WorkRecorder&) = delete;
  WorkRecorder& operator=(const WorkRecorder&) = delete;

  /// Until end(), what this thread asks for is written down and not done. It must not wait, nor allocate memory there.
  virtual void begin() = 0;
  /// @throws DeviceError if something could not be written down.
  virtual void end() = 0;
  /// Instead of end(): forgets it.
  virtual void cancel() noexcept = 0;
  /// Asks for all of it again, in this thread's order.
  virtual void repeat() = 0;
};

/// Null where work is not recorded: on the CPU, and where set_recording() said so.
using WorkRecorderTable = DeviceTable<std::unique_ptr<WorkRecorder> (*)(const Device&)>;
WorkRecorderTable& work_recorder_table();

/// Whether objects of RepeatedWork that this thread makes on `device` from now on record. They do unless it is set.
void set_recording(const Device& device, bool recording);
using SetRecordingTable = DeviceTable<void (*)(const Device&, bool)>;
SetRecordingTable& set_recording_table();

/// The first run is done as it is asked for: libraries choose algorithms then, and memory grows. The second is recorded
/// and repeated, as are all after it. What has no recorder, or cannot be recorded, is done directly every time.
/// Cost: a run that is repeated costs the host one call, instead of one per kernel.
class RepeatedWork {
 public:
  explicit RepeatedWork(const Device& device) : recorder_(work_recorder_table().at(device)(device)) {}

  /// @param work asks for the same every time, with the same addresses and values, since the last call of forget().
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
  /// What the work is about has moved: the next run records anew.
  void forget() { is_recorded_ = false; }
  /// Why it could not be recorded; empty if it could, or was not tried.
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

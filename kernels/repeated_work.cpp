// SPDX-License-Identifier: MIT
#include "kernels/repeated_work.h"

namespace dragonn::kernels {

WorkRecorderTable& work_recorder_table() {
  static WorkRecorderTable table("record work", [](const Device&) -> std::unique_ptr<WorkRecorder> { return nullptr; });
  return table;
}

SetRecordingTable& set_recording_table() {
  static SetRecordingTable table("set_recording", [](const Device&, bool) {});
  return table;
}

void set_recording(const Device& device, bool recording) {
  set_recording_table().at(device)(device, recording);
}

}  // namespace dragonn::kernels

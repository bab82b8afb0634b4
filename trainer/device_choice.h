// SPDX-License-Identifier: MIT
/// DeviceChoice: what the key `device` comes to, decided once per run.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "core/device.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// Where a rank computes.
struct DeviceChoice {
  Device device;
  std::string name;   ///< of a GPU; empty for the CPU
  std::string notes;  ///< what "auto" went by, and whether workers share the GPU; may be empty
  int workers = 1;    ///< that compute on this GPU, this one included

  /// "cuda:0 (NVIDIA H200); device = \"auto\"", "the CPU; ...": for the log and the dry run.
  std::string describe() const;
};

/// Local: what this machine alone comes to; of several GPUs the first. Nothing is started on a GPU.
/// @throws ConfigError with the reason if `device` is "cuda" and the build or the machine has none, or the times of the
/// run are to be virtual and measured, which takes work on the processor; or if the CPU is to compute in less than
/// float32.
DeviceChoice choose_device(const Config& config);

/// Collective: all ranks come to the same type of device. "auto" is a GPU only where every rank has one. Ranks of a
/// machine take its GPUs in turn, and share them where they are more.
/// @throws comm::AgreedError with the reason of choose_device(config) on the lowest rank that has one.
DeviceChoice choose_device(const Config& config, comm::Communicator& communicator);

}  // namespace dragonn::trainer

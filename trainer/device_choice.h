// SPDX-License-Identifier: MIT
/// DeviceChoice: the device that the key `device` leads to, decided once per run.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "core/device.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// The device of a rank.
struct DeviceChoice {
  Device device;
  std::string name;   ///< name of a GPU; empty for the CPU
  std::string notes;  ///< the reason for the choice of "auto", and whether workers share the GPU; may be empty
  int workers = 1;    ///< workers on this GPU, this one included

  /// Returns "cuda:0 (NVIDIA H200); device = \"auto\"" or "the CPU; ...", for the log and the dry run.
  std::string describe() const;
};

/// Local. Chooses by this machine alone; the first of several GPUs. Nothing is started on a GPU.
/// @throws ConfigError with the reason if `device` is "cuda" and the build or the machine has none, or the run's times
/// are to be virtual and measured, which takes work on the processor; or if the CPU is to compute in less than float32.
DeviceChoice choose_device(const Config& config);

/// Collective. Chooses the same type of device on all ranks. "auto" takes GPUs only if every rank has one. Ranks of a
/// machine take its GPUs in turn, and share them if there are more ranks.
/// @throws comm::AgreedError with the reason of choose_device(config) on the lowest rank that has one.
DeviceChoice choose_device(const Config& config, comm::Communicator& communicator);

}  // namespace dragonn::trainer

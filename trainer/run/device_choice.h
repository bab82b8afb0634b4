// SPDX-License-Identifier: MIT
/// DeviceChoice: the device that the key `device` leads to, decided once per run. GpuLink: the transport between GPUs.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/device_transport.h"
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
/// @throws comm::CollectiveError with the reason of choose_device(config) on the lowest rank that has one.
DeviceChoice choose_device(const Config& config, comm::Communicator& communicator);

/// Gives the communicator the transport while it lives.
class GpuLink {
 public:
  /// Collective. Does nothing unless `comm.backend` is "nccl". @throws comm::CollectiveError if some rank computes on
  /// the CPU or shares its GPU, saying what would do; CommError.
  GpuLink(const Config& config, comm::Communicator& communicator, const DeviceChoice& choice);
  /// Removes the transport. Without finish(), as after an error, this aborts the waits of the other ranks.
  ~GpuLink() { communicator_.set_device_transport(nullptr); }
  GpuLink(const GpuLink&) = delete;
  GpuLink& operator=(const GpuLink&) = delete;

  /// Collective. Closes the transport after the last step.
  void finish() {
    if (transport_ != nullptr) transport_->finish();
  }

 private:
  comm::Communicator& communicator_;
  std::unique_ptr<comm::DeviceTransport> transport_;
};

}  // namespace dragonn::trainer

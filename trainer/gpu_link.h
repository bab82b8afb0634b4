// SPDX-License-Identifier: MIT
/// GpuLink: the run's transport between GPUs, if `comm.backend` asks for one.
#pragma once

#include <memory>

#include "comm/device_transport.h"
#include "trainer/config/config.h"
#include "trainer/device_choice.h"

namespace dragonn::trainer {

/// Gives the communicator the transport while it lives.
class GpuLink {
 public:
  /// Collective. Does nothing unless `comm.backend` is "nccl". @throws comm::AgreedError if some rank computes on the
  /// CPU or shares its GPU, saying what would do; CommError.
  GpuLink(const Config& config, comm::Communicator& communicator, const DeviceChoice& choice);
  /// Removes the transport. Without finish(), as after an error, this aborts the waits of the other ranks.
  ~GpuLink() { communicator_.set_device_transport(nullptr); }
  GpuLink(const GpuLink&) = delete;
  GpuLink& operator=(const GpuLink&) = delete;

  /// Collective. Closes the transport after the last step.
  void finish();

 private:
  comm::Communicator& communicator_;
  std::unique_ptr<comm::DeviceTransport> transport_;
};

}  // namespace dragonn::trainer

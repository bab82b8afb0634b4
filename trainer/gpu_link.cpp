// SPDX-License-Identifier: MIT
#include "trainer/gpu_link.h"

#include <fmt/format.h>

#include "comm/agreement.h"

namespace dragonn::trainer {

GpuLink::GpuLink(const Config& config, comm::Communicator& communicator, const DeviceChoice& choice)
    : communicator_(communicator) {
  if (config.comm.backend != Backend::kNccl) return;
  comm::all_ranks_or_none(communicator, [&] {
    if (choice.device.is_cpu())
      throw ConfigError(fmt::format(
          "comm.backend = \"nccl\" moves the memory of GPUs, and this run computes on {}; expected \"mpi\" or "
          "\"tcp\"",
          choice.describe()));
    if (choice.workers > 1)
      throw ConfigError(
          fmt::format("comm.backend = \"nccl\": {} workers share {} ({}); expected a GPU for each worker, or \"mpi\" "
                      "or \"tcp\", which go through host memory",
                      choice.workers, to_string(choice.device), choice.name));
  });
  transport_ = comm::make_nccl_transport(communicator, choice.device, config.comm.timeout_s);
  communicator.set_device_transport(transport_.get());
}

void GpuLink::finish() {
  if (transport_ != nullptr) transport_->finish();
}

}  // namespace dragonn::trainer

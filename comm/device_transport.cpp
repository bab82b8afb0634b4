// SPDX-License-Identifier: MIT
#include "comm/device_transport.h"

#include "core/error.h"

namespace dragonn::comm {
namespace {

NcclMaker& nccl_maker() {
  static NcclMaker maker = nullptr;
  return maker;
}

}  // namespace

std::string backend_name(const Communicator& communicator) {
  return communicator.device_transport() != nullptr ? "nccl" : communicator.backend();
}

bool register_nccl(NcclMaker maker) {
  nccl_maker() = maker;
  return true;
}

std::unique_ptr<DeviceTransport> make_nccl_transport(Communicator& communicator, const Device& device,
                                                     double timeout_s) {
  if (nccl_maker() == nullptr) throw ConfigError("this build has no NCCL (DRAGONN_CUDA=OFF)");
  return nccl_maker()(communicator, device, timeout_s);
}

}  // namespace dragonn::comm

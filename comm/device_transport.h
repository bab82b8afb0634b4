// SPDX-License-Identifier: MIT
/// DeviceTransport: collectives on the memory of GPUs, beside a communicator that carries everything else.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "core/error.h"

namespace dragonn::comm {

/// A message to one rank.
struct OutgoingBytes {
  int destination = 0;
  View<const std::byte> bytes;
};
/// A message from one rank, whose size the receiver knows.
struct IncomingBytes {
  int source = 0;
  View<std::byte> bytes;
};

/// The arguments of a gather: what this rank brings, and the places for what all ranks bring.
struct DeviceGather {
  View<const std::byte> mine;
  std::span<const View<std::byte>> parts;  ///< by rank, with sizes that all ranks know; parts[rank] may be `mine`
};

/// Collectives on GPU memory. All ranks call them in the same order. Each returns when its result is there, or throws a
/// CommError that names this rank, the collective and what the rank was doing; the group is dead then. One thread at a
/// time uses it.
/// Traffic is counted with the communicator, by the formulas below, since what a library sends cannot be seen.
class DeviceTransport {
 public:
  DeviceTransport() = default;
  virtual ~DeviceTransport() = default;
  DeviceTransport(const DeviceTransport&) = delete;
  DeviceTransport& operator=(const DeviceTransport&) = delete;

  /// Returns the device of the memory.
  virtual Device device() const = 0;
  /// Sums each vector over ranks, in place, with the same bits on every rank; the library chooses the order of the sum.
  /// All vectors go at the same time. Each is counted as a ring: 2n(P-1)/P words in 2(P-1) messages.
  virtual void allreduce_sum(std::span<const View<float>> vectors) = 0;
  /// Gathers parts[r] <- rank r's `mine`, for all gathers at the same time. Each counts as P-1 messages of mine.size()
  /// bytes, none if that is 0.
  virtual void gather(std::span<const DeviceGather> gathers) = 0;
  /// Sends and receives messages at the same time. Both ranks of a pair ask for the same messages in the same order.
  /// Empty ones are not sent. Traffic counts as sent.
  virtual void exchange(std::span<const OutgoingBytes> outgoing, std::span<const IncomingBytes> incoming) = 0;
  /// Collective. Closes the transport in order. Without this, its destructor aborts what the others still wait for.
  virtual void finish() = 0;
};

/// Returns "nccl" if the communicator has a device transport, else the name of its backend.
inline std::string backend_name(const Communicator& communicator) {
  return communicator.device_transport() != nullptr ? "nccl" : communicator.backend();
}

/// The maker of NCCL transports. In builds with NCCL its file sets it before main.
using NcclMaker = std::unique_ptr<DeviceTransport> (*)(Communicator&, const Device&, double timeout_s);
inline NcclMaker& nccl_maker() {
  static NcclMaker maker = nullptr;
  return maker;
}

/// Collective. Connects the GPUs of all ranks by NCCL, one GPU per rank; `communicator` outlives the result. @param
/// timeout_s deadline of every wait. @throws ConfigError if this build has no NCCL, CommError.
inline std::unique_ptr<DeviceTransport> make_nccl_transport(Communicator& communicator, const Device& device,
                                                            double timeout_s) {
  if (nccl_maker() == nullptr) throw ConfigError("this build has no NCCL (DRAGONN_CUDA=OFF)");
  return nccl_maker()(communicator, device, timeout_s);
}

}  // namespace dragonn::comm

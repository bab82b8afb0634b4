// SPDX-License-Identifier: MIT
/// DeviceTransport: collectives on the memory of GPUs, beside a communicator that carries everything else.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "comm/communicator.h"

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

/// What a rank brings to a gather, and the places for what all ranks bring.
struct DeviceGather {
  View<const std::byte> mine;
  std::span<const View<std::byte>> parts;  ///< by rank, of sizes that all ranks know; parts[rank] may be `mine`
};

/// All ranks call collectives in the same order. Each returns when its result is there, or throws CommError that names
/// this rank, the collective and what the rank was doing; the group is dead then. One thread at a time uses it.
/// Traffic is counted with the communicator, by the formulas below: what a library sends is not seen.
class DeviceTransport {
 public:
  DeviceTransport() = default;
  virtual ~DeviceTransport() = default;
  DeviceTransport(const DeviceTransport&) = delete;
  DeviceTransport& operator=(const DeviceTransport&) = delete;

  /// Where the memory is.
  virtual Device device() const = 0;
  /// Each vector <- sum over ranks, the same bits on every rank; which order they are added in is the library's choice.
  /// All vectors at the same time. Each is counted as a ring: 2n(P-1)/P words in 2(P-1) messages.
  virtual void allreduce_sum(std::span<const View<float>> vectors) = 0;
  /// parts[r] <- rank r's `mine`, of all gathers at the same time. Counted as P-1 messages of mine.size() bytes each,
  /// none where that is 0.
  virtual void gather(std::span<const DeviceGather> gathers) = 0;
  /// Messages that go at the same time, between ranks that both ask for them; those of a pair of ranks in the same
  /// order on both. Empty ones are not sent. Counted as they are.
  virtual void exchange(std::span<const OutgoingBytes> outgoing, std::span<const IncomingBytes> incoming) = 0;
  /// Collective: closes it in order. Without this its end aborts what the others still wait for.
  virtual void finish() = 0;
};

/// "nccl" where the communicator has a transport, else its backend.
std::string backend_name(const Communicator& communicator);

/// Collective. NCCL between the GPUs of all ranks, each rank on its own; `communicator` outlives it. @param timeout_s
/// deadline of every wait. @throws ConfigError if this build is without it, CommError.
std::unique_ptr<DeviceTransport> make_nccl_transport(Communicator& communicator, const Device& device,
                                                     double timeout_s);

/// NCCL's file adds this before main, in builds that have it.
using NcclMaker = std::unique_ptr<DeviceTransport> (*)(Communicator&, const Device&, double timeout_s);
bool register_nccl(NcclMaker maker);

}  // namespace dragonn::comm

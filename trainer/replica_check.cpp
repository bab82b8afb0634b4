// SPDX-License-Identifier: MIT
#include "trainer/replica_check.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agreement.h"
#include "core/hash.h"

namespace dragonn::trainer {

std::uint64_t check_replicas(comm::Communicator& communicator, std::span<const float> parameters, std::uint64_t step) {
  const std::uint64_t mine = hash_bytes(std::as_bytes(parameters));
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const std::uint64_t>(&mine, 1), std::span<std::uint64_t>(hashes));
  std::vector<std::size_t> different;
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] != hashes[0]) different.push_back(rank);
  }
  if (!different.empty()) {
    throw comm::AgreedError(
        fmt::format("step {}: the parameters of rank{} {} differ from those of rank 0; the run stops because "
                    "its replicas have diverged",
                    step, different.size() == 1 ? "" : "s", fmt::join(different, ", ")));
  }
  return mine;
}

}  // namespace dragonn::trainer

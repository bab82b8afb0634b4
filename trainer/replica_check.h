// SPDX-License-Identifier: MIT
/// Replica check: all ranks must hold the same parameters, bit for bit.
#pragma once

#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace dragonn::trainer {

/// Collective. Returns XXH3-64 of the parameters. @throws comm::AgreedError naming the ranks that differ from rank 0,
/// and the step.
std::uint64_t check_replicas(comm::Communicator& communicator, std::span<const float> parameters, std::uint64_t step);

}  // namespace dragonn::trainer

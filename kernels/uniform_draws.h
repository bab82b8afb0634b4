// SPDX-License-Identifier: MIT
/// Uniform draws: the numbers of a stream of core/rng.h by the block, from any place in it.
#pragma once

#include <cstdint>
#include <span>

namespace dragonn::kernels {

/// Draws: draws[i] <- number first + i of those that Rng(key).uniform() gives, uniform in [0, 1), 24 bits. Any piece of
/// a stream costs the same, so that threads need not take turns.
void uniform_draws(std::uint64_t key, std::uint64_t first, std::span<float> draws);

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
/// Registered collectives: makes one, and checks which sparsifier may be paired with which (docs/algorithms.md, section
/// 5).
#pragma once

#include <memory>
#include <string>

#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// Makes the collective `name`, which names itself in errors, for buckets of `numel` elements. @throws ConfigError if
/// it is unknown.
std::unique_ptr<SparseCollective> make_collective(const std::string& name, const Settings& settings, std::size_t numel);

/// Checks a pair. @param traits of the sparsifier `sparsifier`, with its settings applied.
/// @throws ConfigError if `collective` is unknown, or refuses such selections: with the reason and the collectives that
/// fit.
void check_pair(const SelectionTraits& traits, const std::string& sparsifier, const std::string& collective);

}  // namespace dragonn::comm

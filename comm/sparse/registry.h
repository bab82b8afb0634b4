// SPDX-License-Identifier: MIT
/// Which sparsifier may be paired with which collective (docs/algorithms, section 5).
#pragma once

#include <string>

#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// @param traits of the sparsifier `sparsifier`, with its settings applied.
/// @throws ConfigError if `collective` is unknown, or refuses such selections: with the reason and the collectives that
/// do fit.
void check_pair(const SelectionTraits& traits, const std::string& sparsifier, const std::string& collective);

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// Pieces of what the entries of collectives state of an exchange: its expected sizes, and the memory of its parts.
#pragma once

#include <cstddef>

#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// The sizes of an exchange of which only the target is known. Every rank selects k entries; k / P where the ranks
/// share the bucket among them, and the leader all k where it alone selects. The sum is what `entry.sum` says; unions
/// are as large as they can be, as if no two ranks selected one index, which gradients approach at low density.
ExchangeSizes expected_sizes(const SparseCollectiveEntry& entry, const SelectionTraits& selection, std::size_t numel,
                             std::size_t k, int ranks);

/// Bytes of so many entries, or numbers of 4 bytes.
std::size_t list_bytes(double entries);
std::size_t word_bytes(double words);

/// Of the sum and of the indices that left the rank.
std::size_t result_bytes(const ExchangeSizes& sizes);
/// Of what adds up lists of this bucket: on a CPU a window that stays the same, on a GPU a vector as long as the
/// bucket.
std::size_t decoder_bytes(const ExchangeSizes& sizes, const Device& device);

}  // namespace dragonn::comm

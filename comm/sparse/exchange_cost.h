// SPDX-License-Identifier: MIT
/// Exchange cost: the parts that the entries of collectives share, expected sizes and the memory of an exchange.
#pragma once

#include <cstddef>

#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// Returns the sizes of an exchange of which only the target is known. Every rank selects k entries; k / P if the ranks
/// share the bucket among them, and the leader all k if it alone selects. The sum has the size of `entry.sum`; unions
/// are as large as possible, as if no two ranks selected one index, which gradients approach at low density.
ExchangeSizes expected_sizes(const SparseCollectiveEntry& entry, const SelectionTraits& selection, std::size_t numel,
                             std::size_t k, int ranks);

/// Returns the bytes of that many entries in memory, and below those of numbers of 4 bytes.
std::size_t list_bytes(double entries);
std::size_t word_bytes(double words);

/// Returns the bytes of the sum and of the indices that left the rank.
std::size_t result_bytes(const ExchangeSizes& sizes);
/// Returns the bytes of the decoder of this bucket's lists: on a CPU a window of fixed size, on a GPU a vector as long
/// as the bucket.
std::size_t decoder_bytes(const ExchangeSizes& sizes, const Device& device);

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// Exchange cost: the parts that the entries of collectives share, expected sizes and the memory of an exchange.
#pragma once

#include <cstddef>

#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// The counts that an exchange is taken to have, in shares; the defaults are those of exactly k entries at places that
/// no two ranks share.
struct AssumedCounts {
  double selected = 1;  ///< by a rank, mean over ranks, of its target
  double longest = 1;   ///< list of any rank, of the mean over ranks
  double sum = 1;       ///< entries of the sum, of the size that SparseCollectiveEntry::sum states for that selection;
                        ///< of a union, below 1: of a rank's entries those at places independent of the other ranks'
};

/// Returns the sizes of an exchange of which the target is known. Every rank selects k entries; k / P if the ranks
/// share the bucket among them, and the leader all k if it alone selects. The sum has the size of `entry.sum`; unions
/// are as large as possible. All counts are multiplied by the shares of `counts`, and stay below what the bucket and
/// the selections can give.
ExchangeSizes expected_sizes(const SparseCollectiveEntry& entry, const SelectionTraits& selection, std::size_t numel,
                             std::size_t k, int ranks, const AssumedCounts& counts = {});

/// Returns the forecast of a union. Real gradients agree on few of their largest entries: between 4 ranks of ResNet-20
/// unions of k = 0.01 n to 0.7 n have 0.95 to 1.03 times the expected size; of P k entries of k = 0.001 n to 0.16 n,
/// between 2 to 6 ranks of three networks, 0.5 to 1 were different ones.
CountForecast union_forecast(const Settings& settings, int ranks);

/// Returns the bytes of that many entries in memory, and below those of numbers of 4 bytes.
std::size_t list_bytes(double entries);
std::size_t word_bytes(double words);

/// Returns the bytes of the sum and of the indices that left the rank.
std::size_t result_bytes(const ExchangeSizes& sizes);
/// Returns the bytes of what a lossy code leaves behind (CodingError): of the selection and of `sums` entries that the
/// rank encodes, their merge, what is handed back and the indices that stay masked. Without a lossy code there are
/// none.
std::size_t coding_error_bytes(const ExchangeSizes& sizes, double sums);
/// Returns the bytes of the decoder of this bucket's lists: on a CPU a window of fixed size, on a GPU a vector as long
/// as the bucket.
std::size_t decoder_bytes(const ExchangeSizes& sizes, const Device& device);

}  // namespace dragonn::comm

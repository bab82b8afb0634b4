// SPDX-License-Identifier: MIT
/// Vector loop that splits keys of magnitudes by a range, dispatched at run time to the best instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dragonn::kernels::detail {

/// The keys from `low` to `high`, both included.
struct KeyRange {
  std::uint32_t low;
  std::uint32_t high;
};

struct BandCounts {
  std::size_t above = 0;
  std::size_t inside = 0;
};

/// Writes the keys of values[begin, end) that are in the range to `keys`, which has room for end - begin, in their
/// order. Counts these and the larger ones.
BandCounts split_band_chunk(const float* values, std::size_t begin, std::size_t end, const KeyRange& range,
                            std::uint32_t* keys);

}  // namespace dragonn::kernels::detail

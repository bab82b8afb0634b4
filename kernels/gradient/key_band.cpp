// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/key_band.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <hwy/highway.h>

#include "kernels/gradient/key_band.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Splits whole vectors of values from *position on. Keys have 31 bits, so they are compared as signed numbers.
template <class D>
HWY_INLINE void split_vectors(D d, const float* values, std::size_t* position, std::size_t end, const KeyRange& range,
                              std::uint32_t* keys, BandCounts* counts) {
  const hn::RebindToSigned<D> di;
  const auto infinity = hn::Set(di, 0x7f800000);
  const auto low = hn::Set(di, static_cast<std::int32_t>(range.low));
  const auto high = hn::Set(di, static_cast<std::int32_t>(range.high));
  const std::size_t lanes = hn::Lanes(d);
  BandCounts found = *counts;
  std::size_t i = *position;
  for (; i + lanes <= end; i += lanes) {
    const auto bits = hn::BitCast(di, hn::Abs(hn::LoadU(d, values + i)));
    const auto key = hn::IfThenZeroElse(hn::Gt(bits, infinity), bits);
    const auto above = hn::Gt(key, high);
    const auto inside = hn::Not(hn::Or(above, hn::Lt(key, low)));
    found.above += hn::CountTrue(di, above);
    // Writes all lanes behind the hits too: later ones overwrite them, and there is room for as many as were seen.
    hn::StoreU(hn::Compress(key, inside), di, reinterpret_cast<std::int32_t*>(keys + found.inside));
    found.inside += hn::CountTrue(di, inside);
  }
  *position = i;
  *counts = found;
}

BandCounts SplitBandChunk(const float* values, std::size_t begin, std::size_t end, const KeyRange& range,
                          std::uint32_t* keys) {
  std::size_t position = begin;
  BandCounts counts;
  split_vectors(hn::ScalableTag<float>(), values, &position, end, range, keys, &counts);
  split_vectors(hn::CappedTag<float, 1>(), values, &position, end, range, keys, &counts);
  return counts;
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels::detail {

HWY_EXPORT(SplitBandChunk);

BandCounts split_band_chunk(const float* values, std::size_t begin, std::size_t end, const KeyRange& range,
                            std::uint32_t* keys) {
  return HWY_DYNAMIC_DISPATCH(SplitBandChunk)(values, begin, end, range, keys);
}

}  // namespace dragonn::kernels::detail
#endif  // HWY_ONCE

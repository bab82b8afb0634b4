// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/filter_threshold.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <array>

#include <hwy/highway.h>

#include "kernels/gradient_pass_chunks.h"
#include "kernels/gradient_pass_sweep.h"
#include "kernels/same_device.h"
#include "kernels/select.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Whole vectors of entries from *position on. Writes all lanes behind the hits too: later entries overwrite them, and
/// the room for the lanes is there because no more entries were kept than seen.
template <class D>
HWY_INLINE std::size_t filter_vectors(D d, const SparseVector& entries, std::size_t* position, std::size_t end,
                                      float threshold, std::uint32_t* indices, float* values) {
  const hn::RebindToUnsigned<D> du;
  const auto bound = hn::Set(d, threshold);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t count = 0;
  std::size_t entry = *position;
  for (; entry + lanes <= end; entry += lanes) {
    const auto value = hn::LoadU(d, entries.values.data() + entry);
    const auto index = hn::LoadU(du, entries.indices.data() + entry);
    const auto hits = hn::Ge(hn::Abs(value), bound);
    hn::StoreU(hn::Compress(index, hn::RebindMask(du, hits)), du, indices + count);
    hn::StoreU(hn::Compress(value, hits), d, values + count);
    count += hn::CountTrue(d, hits);
  }
  *position = entry;
  return count;
}

/// Writes the hits of entries [begin, end) to `indices` and `values`, which have room for all. Returns their number.
std::size_t FilterChunk(const SparseVector& entries, std::size_t begin, std::size_t end, float threshold,
                        std::uint32_t* indices, float* values) {
  std::size_t position = begin;
  const std::size_t count =
      filter_vectors(hn::ScalableTag<float>(), entries, &position, end, threshold, indices, values);
  return count +
         filter_vectors(hn::CappedTag<float, 1>(), entries, &position, end, threshold, indices + count, values + count);
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(FilterChunk);
}  // namespace detail

namespace {

void filter_cpu(const SparseVector& entries, float threshold, SparseVector& selected) {
  const detail::Chunks pieces(entries.size(), 32768);
  std::array<std::size_t, detail::kMaxChunks> counts{};
  for_each_chunk(pieces, [&](std::size_t piece) {
    const std::size_t begin = pieces.begin(piece);
    counts[piece] = HWY_DYNAMIC_DISPATCH(detail::FilterChunk)(
        entries, begin, pieces.end(piece), threshold, selected.indices.data() + begin, selected.values.data() + begin);
  });
  std::size_t total = 0;
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    detail::move_hits(selected, pieces.begin(piece), total, counts[piece]);
    total += counts[piece];
  }
  selected.truncate(total);
}

}  // namespace

FilterTable& filter_threshold_table() {
  static FilterTable table("filter_threshold", filter_cpu);
  return table;
}

void filter_threshold(const SparseVector& entries, float threshold, SparseVector& selected) {
  check_same_device("filter_threshold", entries.device(), selected.device());
  selected.resize_discard(entries.size());
  filter_threshold_table().at(entries.device())(entries, threshold, selected);
}

}  // namespace dragonn::kernels
#endif  // HWY_ONCE

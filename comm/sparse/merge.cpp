// SPDX-License-Identifier: MIT
#include "comm/sparse/merge.h"

#include <algorithm>
#include <limits>

#include "kernels/gradient/select.h"

namespace dragonn::comm {

namespace {

struct HostList {
  explicit HostList(const ListView& list) : indices(list.indices.host()), values(list.values.host()) {}
  std::size_t size() const { return indices.size(); }

  std::span<const std::uint32_t> indices;
  std::span<const float> values;
};

}  // namespace

void add_entries(const ListView& first, const ListView& second, SparseVector& sum) {
  const HostList a(first), b(second);
  resize_with_slack(sum, a.size() + b.size());
  std::uint32_t* const indices = sum.indices.data();
  float* const values = sum.values.data();
  std::size_t i = 0, j = 0, count = 0;
  while (i < a.size() && j < b.size()) {
    const std::uint32_t left = a.indices[i], right = b.indices[j];
    const float value = (left <= right ? a.values[i] : 0.0f) + (right <= left ? b.values[j] : 0.0f);
    indices[count] = std::min(left, right);
    values[count] = value;
    count += value != 0 ? 1 : 0;
    i += left <= right ? 1 : 0;
    j += right <= left ? 1 : 0;
  }
  const auto append = [&](const HostList& rest, std::size_t from) {
    std::ranges::copy(rest.indices.subspan(from), indices + count);
    std::ranges::copy(rest.values.subspan(from), values + count);
    count += rest.size() - from;
  };
  append(a, i);
  append(b, j);
  sum.truncate(count);
}

void entries_left_out(const SparseVector& all, std::span<const std::uint32_t> kept, SparseVector& dropped) {
  resize_with_slack(dropped, all.size());
  std::size_t position = 0, count = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint32_t index = all.indices.data()[i];
    if (position < kept.size() && kept[position] == index) {
      ++position;
      continue;
    }
    dropped.indices.data()[count] = index;
    dropped.values.data()[count++] = all.values.data()[i];
  }
  dropped.truncate(count);
}

void common_indices(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b, Buffer<std::uint32_t>& common) {
  resize_with_slack(common, std::min(a.size(), b.size()));
  const auto end = std::ranges::set_intersection(a, b, common.data()).out;
  common.truncate(static_cast<std::size_t>(end - common.data()));
}

void values_at(const SparseVector& entries, std::span<const std::uint32_t> indices, std::span<float> out) {
  const auto own = entries.indices.host();
  std::size_t position = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    while (position < own.size() && own[position] < indices[i]) ++position;
    const bool found = position < own.size() && own[position] == indices[i];
    out[i] = found ? entries.values.data()[position] : 0.0f;
  }
}

float keep_largest_with_slack(const SparseVector& entries, std::size_t k, kernels::MagnitudeScratch& scratch,
                              SparseVector& kept) {
  resize_with_slack(scratch.keys, entries.size());
  resize_with_slack(kept, std::min(k, entries.size()));
  return kernels::keep_largest(entries, k, scratch, kept);
}

void keep_above(const SparseVector& entries, float threshold, SparseVector& kept) {
  resize_with_slack(kept, entries.size());
  kernels::filter_threshold(entries, std::max(threshold, std::numeric_limits<float>::denorm_min()), kept);
}

}  // namespace dragonn::comm

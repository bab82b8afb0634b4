// SPDX-License-Identifier: MIT
// A selection that is hashed as the pass finds it, on every device, against a plain table.
#include <map>

#include <doctest/doctest.h>

#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/hash_select.h"
#include "tests/kernels/gradient_reference.h"

using namespace dragonn;
using namespace dragonn::kernels;
using namespace dragonn::test;

namespace {

using Kind = PassRequest::Kind;
using Vector = std::vector<float>;

/// Returns those of the hits that hold their slot.
Entries holders(const Entries& hits, const HashRule& rule) {
  std::map<std::size_t, std::uint32_t> table;
  for (const auto& [index, value] : hits) {
    const auto [place, is_first] = table.try_emplace(rule.slot(index), index);
    const auto key = [&](std::uint32_t of) { return mix64(mix64(rule.slot.salt) ^ of); };
    const bool wins = rule.by_priority ? key(index) > key(place->second) : index > place->second;
    if (!is_first && wins) place->second = index;
  }
  Entries kept = hits;
  std::erase_if(kept, [&](const auto& hit) { return table.at(rule.slot(hit.first)) != hit.first; });
  return kept;
}

}  // namespace

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("of the hits of a pass those stay that hold their slots, by either rule, wherever they lie") {
    HashScratch scratch(device);
    SparseVector kept(device);
    std::uint64_t salt = 0;
    for (const std::size_t size : {1, 31, 4096, 4097, 50001}) {
      const Vector values = gradient_values(size, 5);
      const Buffer<float> gradient = on_device(values, device);
      PassResult result(device);
      result.reserve(size);
      // Nothing reaches the highest threshold; at 0 there are more hits than the list has room for on a GPU.
      for (const float threshold : {100.0f, 2.0f, 0.0f}) {
        for (const std::size_t slots : {std::size_t{1}, size / 50 + 1, 2 * size}) {
          for (const bool by_priority : {false, true}) {
            const HashChoice choice{{.slot = {++salt, slots}, .by_priority = by_priority}, &scratch};
            const std::size_t begin = size / 7, end = size - size / 5;
            const PassRequest request{
                .kind = Kind::kThreshold, .threshold = threshold, .begin = begin, .end = end, .hash = choice};
            examine(request, gradient.view(), result);
            hash_select(result.selected, choice, kept);
            const Entries hits = reaching(values, threshold, begin, end);
            CHECK(entries_of(result.selected) == hits);
            CHECK(entries_of(kept) == holders(hits, choice.rule));
          }
        }
      }
    }
  }

  DRAGONN_DEVICE_TEST("a list that is too short for the hits of a pass grows, and none is hashed twice or not at all") {
    constexpr std::size_t kSize = 20000;
    const Vector values = gradient_values(kSize, 6);
    for (const bool by_priority : {false, true}) {
      HashScratch scratch(device);
      const HashChoice choice{{.slot = {mix64(3), kSize / 4}, .by_priority = by_priority}, &scratch};
      Buffer<float> residual = on_device(Vector(kSize, 0.0f), device);
      PassResult result(device);  // has no room at all
      accumulate_residual({.kind = Kind::kThreshold, .threshold = 0.5f, .end = kSize, .hash = choice},
                          on_device(values, device).view(), {}, residual.view(), result);
      SparseVector kept(device);
      hash_select(result.selected, choice, kept);
      CHECK(entries_of(kept) == holders(reaching(values, 0.5f, 0, kSize), choice.rule));
      CHECK(to_host(residual.view()) == values);
    }
  }

  DRAGONN_DEVICE_TEST("a pass that wants nothing leaves no hits of the pass before it") {
    const Vector values = gradient_values(5000, 8);
    const Buffer<float> gradient = on_device(values, device);
    HashScratch scratch(device);
    const HashChoice choice{{.slot = {mix64(5), 100}}, &scratch};
    PassResult result(device);
    SparseVector kept(device);
    PassRequest request{.kind = Kind::kThreshold, .threshold = 1, .end = values.size(), .hash = choice};
    examine(request, gradient.view(), result);
    hash_select(result.selected, choice, kept);
    CHECK(kept.size() > 0);
    request.begin = request.end = 2000;
    examine(request, gradient.view(), result);
    hash_select(result.selected, choice, kept);
    CHECK(kept.empty());
  }

  DRAGONN_DEVICE_TEST("hits are hashed by their place in the bucket, wherever that begins in memory") {
    constexpr std::size_t kSize = 9001;
    const Vector values = gradient_values(kSize + 3, 7);
    const Buffer<float> padded = on_device(values, device);
    for (const std::size_t offset : {1, 2, 3}) {
      const Vector bucket(values.begin() + static_cast<std::ptrdiff_t>(offset),
                          values.begin() + static_cast<std::ptrdiff_t>(offset + kSize));
      HashScratch scratch(device);
      const HashChoice choice{{.slot = {offset, 300}}, &scratch};
      Buffer<float> acc = poisoned(kSize, device);
      PassResult result(device);
      result.reserve(kSize);
      accumulate_scaled({.kind = Kind::kThreshold, .threshold = 1.5f, .end = kSize, .hash = choice},
                        padded.view().subview(offset, kSize), 1.0f, acc.view(), result);
      SparseVector kept(device);
      hash_select(result.selected, choice, kept);
      CHECK(entries_of(kept) == holders(reaching(bucket, 1.5f, 0, kSize), choice.rule));
    }
  }
}

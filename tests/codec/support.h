// SPDX-License-Identifier: MIT
/// Helpers of the codec tests: lists of indices of many kinds, and codes as vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codec/list_codec.h"
#include "core/rng.h"

namespace dragonn::codec::test {

using Indices = std::vector<std::uint32_t>;
using Bytes = std::vector<std::byte>;

inline std::unique_ptr<IndexCodec> index_codec(const std::string& name) {
  const auto& entry = Registry<IndexCodecEntry>::instance().at(name);
  return entry.make(Settings(entry.settings));
}

inline std::unique_ptr<ListCodec> list_codec(const std::string& indices, const std::string& values = kRawValues) {
  return make_list_codec({{indices, Settings(Registry<IndexCodecEntry>::instance().at(indices).settings)},
                          {values, Settings(Registry<ValueCodecEntry>::instance().at(values).settings)}});
}

/// Each of `numel` elements with this probability.
inline Indices random_indices(std::uint32_t numel, double density, std::uint64_t seed) {
  Rng rng(5, "indices", {seed});
  Indices indices;
  for (std::uint32_t i = 0; i < numel; ++i) {
    if (rng.uniform_double() < density) indices.push_back(i);
  }
  return indices;
}

/// Runs of neighbours, far apart.
inline Indices clustered_indices(std::uint32_t numel, std::uint64_t seed) {
  Rng rng(5, "clusters", {seed});
  Indices indices;
  for (std::uint64_t at = rng.below(200); at < numel; at += 1 + rng.below(3000)) {
    for (const std::uint64_t end = std::min<std::uint64_t>(numel, at + 1 + rng.below(40)); at < end;
         at += 1 + rng.below(2)) {
      indices.push_back(static_cast<std::uint32_t>(at));
    }
  }
  return indices;
}

/// Lists of every kind: dense and sparse, of one index and of several groups, with gaps of one and of 2^31.
inline std::vector<Indices> lists_of_every_kind() {
  constexpr std::uint32_t kLast = 0xFFFFFFFE;
  std::vector<Indices> lists{{0},
                             {kLast},
                             {0, kLast},
                             {4095, 4096, 8191, 8192},
                             {63, 64, 127, 128, 4000000000},
                             {3, 4, 20, 21, 100},
                             {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2000000000}};
  for (const std::size_t count : {1023u, 1024u, 1025u, 5000u}) {
    Indices& run = lists.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) run[i] = static_cast<std::uint32_t>(100000 + i);
  }
  for (const double density : {0.9, 0.4, 0.1, 0.01, 0.001}) lists.push_back(random_indices(60000, density, 1));
  lists.push_back(clustered_indices(300000, 2));
  // A dense beginning keeps b small, so that the far rest is escaped.
  Indices& far = lists.emplace_back(random_indices(9000, 0.7, 3));
  for (std::uint32_t i = 1; i <= 100; ++i) far.push_back(i * 40000000);
  return lists;
}

inline Bytes encode(const IndexCodec& codec, const Indices& indices) {
  Bytes code(codec.max_bytes(indices.size()), std::byte{0xA5});
  code.resize(codec.encode(indices, code));
  return code;
}

/// The indices and the number of bytes that were read.
inline std::pair<Indices, std::size_t> decode(const IndexCodec& codec, std::span<const std::byte> code) {
  Buffer<std::uint32_t> scratch;
  const std::size_t read = code.size() - codec.decode(code, scratch).size();
  const auto indices = scratch.host();
  return {Indices(indices.begin(), indices.end()), read};
}

}  // namespace dragonn::codec::test

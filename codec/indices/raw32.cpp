// SPDX-License-Identifier: MIT
// Index codec "raw32": uint32 number of indices | uint32 indices. With float32 values a list has no number, and its
// message may end with empty slots (codec/list_codec.h).
#include "codec/indices/index_codec.h"
#include "codec/indices/plain_indices.h"

namespace dragonn::codec {
namespace {

class Raw32 final : public IndexCodec {
 public:
  std::size_t max_bytes(std::size_t indices) const override { return (indices + 1) * sizeof(std::uint32_t); }

  std::size_t encode(std::span<const std::uint32_t> indices, std::span<std::byte> code) const override {
    store(static_cast<std::uint32_t>(indices.size()), code.data());
    return static_cast<std::size_t>(write_plain(indices, code.data() + sizeof(std::uint32_t)) - code.data());
  }

  std::optional<std::size_t> known_bytes(std::span<const std::uint32_t> indices) const override {
    return max_bytes(indices.size());
  }

  std::span<const std::byte> decode(std::span<const std::byte> code, Buffer<std::uint32_t>& indices) const override {
    CodeReader reader(kRawIndices, code);
    read_plain(reader, reader.number<std::uint32_t>("the number of indices"), indices);
    return reader.rest();
  }

  double expected_bits(double, double) const override { return 32; }
};

const Registration<IndexCodecEntry> registration{{{.name = kRawIndices,
                                                   .summary = "indices as uint32",
                                                   .source = "the wire of gTop-k, SIDCo, Ok-Topk, DRAGONN and ExDyna"},
                                                  /*is_exact=*/true,
                                                  /*make=*/[](const Settings&) { return std::make_unique<Raw32>(); }}};

}  // namespace
}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
// Value codec "float32": values as they are.
#include "codec/code_bytes.h"
#include "codec/values/list_value_codec.h"

namespace dragonn::codec {
namespace {

class Float32 final : public ListValueCodec {
 public:
  std::size_t code_bytes(std::size_t values) const override { return values * sizeof(float); }
  void encode(std::span<const float> values, std::span<std::byte> code) const override {
    std::memcpy(code.data(), values.data(), values.size_bytes());
  }
  std::span<const float> decode(std::span<const std::byte> code, std::size_t count, Buffer<float>&) const override {
    return {reinterpret_cast<const float*>(code.data()), count};
  }
};

const Registration<ListValueCodecEntry> registration{
    {{.name = kRawValues,
      .summary = "values as float32",
      .source = "the wire of gTop-k, SIDCo, Ok-Topk, DRAGONN and ExDyna"},
     /*lossy=*/false,
     /*unbiased=*/true,
     /*make=*/[](const Settings&) -> std::unique_ptr<ListValueCodec> { return std::make_unique<Float32>(); }}};

}  // namespace
}  // namespace dragonn::codec

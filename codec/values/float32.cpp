// SPDX-License-Identifier: MIT
// Value codec "float32": values as they are.
#include "codec/code_bytes.h"
#include "codec/values/value_codec.h"

namespace dragonn::codec {
namespace {

class Float32 final : public ValueCodec {
 public:
  std::size_t code_bytes(std::size_t values) const override { return values * sizeof(float); }
  void encode(View<const float> values, const EncodeContext&, View<std::byte> code) const override {
    std::memcpy(code.host().data(), values.host().data(), values.size() * sizeof(float));
  }
  std::span<const float> decode(std::span<const std::byte> code, std::size_t count, Buffer<float>&) const override {
    return {reinterpret_cast<const float*>(code.data()), count};
  }
};

const Registration<ValueCodecEntry> registration{
    {{.name = kRawValues,
      .summary = "values as float32",
      .source = "the wire of gTop-k, SIDCo, Ok-Topk, DRAGONN and ExDyna"},
     /*lossy=*/false,
     /*unbiased=*/true,
     /*make=*/[](const Settings&) -> std::unique_ptr<ValueCodec> { return std::make_unique<Float32>(); }}};

}  // namespace
}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "codec/values/value_codec.h"
#include "kernels/gradient/quantize.h"

namespace dragonn::codec {
namespace {

/// Encodes the sign of every entry, and one scale for all: mean |acc|. sign(0) = +1. ceil(n/32) + 1 words.
/// A scale that is not finite says that acc holds NaN or infinity.
class SignSgd final : public ValueCodec {
 public:
  std::size_t code_bytes(std::size_t values) const override { return kernels::sign_code_bytes(values); }
  kernels::PassRequest plan() const override { return {.kind = kernels::PassRequest::Kind::kMoments}; }
  void encode(View<const float> values, const EncodeContext& context, View<std::byte> code) const override {
    if (context.pass != nullptr) return kernels::encode_signs(values, scale(*context.pass, values.size()), code);
    kernels::PassResult pass(values.device());
    kernels::examine(plan(), values, pass);
    kernels::encode_signs(values, scale(pass, values.size()), code);
  }
  void sum(View<const std::byte> codes, const kernels::DecodeRule& rule, View<float> target) const override {
    kernels::decode_signs(codes, rule, target);
  }

 private:
  static float scale(const kernels::PassResult& pass, std::size_t values) {
    if (pass.non_finite) return std::numeric_limits<float>::quiet_NaN();
    if (values == 0) return 0;
    constexpr double kLargest = std::numeric_limits<float>::max();  // the mean of many of them may be rounded up
    return static_cast<float>(std::min(pass.moments.sum / static_cast<double>(values), kLargest));
  }
};

const Registration<QuantizerEntry> registration{[] {
  QuantizerEntry entry;
  entry.name = "signsgd";
  entry.summary = "one sign bit per entry, scaled by the mean magnitude; with error feedback (EF-SignSGD)";
  entry.source = "arXiv:1901.09847 (Karimireddy et al., ICML 2019), algorithm 2";
  entry.make = [](const Settings&) { return std::make_unique<SignSgd>(); };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "codec/value_codec.h"
#include "kernels/gradient/quantize.h"

namespace dragonn::codec {
namespace {

/// Encodes the sign of every entry, and one scale for all: mean |acc|. sign(0) = +1. ceil(n/32) + 1 words.
/// A scale that is not finite says that acc holds NaN or infinity.
class SignSgd final : public ValueCodec {
 public:
  explicit SignSgd(std::size_t numel) : numel_(numel) {}

  kernels::PassRequest plan() const override { return {.kind = kernels::PassRequest::Kind::kMoments}; }
  std::size_t code_bytes() const override { return kernels::sign_code_bytes(numel_); }

  void encode(const CodeContext&, const kernels::PassResult& pass, View<const float> acc,
              View<std::byte> code) override {
    kernels::encode_signs(acc, scale(pass), code);
  }
  void decode(View<const std::byte> codes, View<float> sum) const override { kernels::decode_signs(codes, {}, sum); }
  void subtract(View<const std::byte> code, View<float> values) const override {
    kernels::decode_signs(code, {.keep = true, .factor = -1}, values);
  }

 private:
  float scale(const kernels::PassResult& pass) const {
    if (pass.non_finite) return std::numeric_limits<float>::quiet_NaN();
    if (numel_ == 0) return 0;
    constexpr double kLargest = std::numeric_limits<float>::max();  // the mean of many of them may be rounded up
    return static_cast<float>(std::min(pass.moments.sum / static_cast<double>(numel_), kLargest));
  }

  std::size_t numel_;
};

const Registration<ValueCodecEntry> registration{[] {
  ValueCodecEntry entry;
  entry.name = "signsgd";
  entry.summary = "one sign bit per entry, scaled by the mean magnitude; with error feedback (EF-SignSGD)";
  entry.source = "arXiv:1901.09847 (Karimireddy et al., ICML 2019), algorithm 2";
  entry.make = [](const Settings&, std::size_t numel, const Device&) { return std::make_unique<SignSgd>(numel); };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::codec

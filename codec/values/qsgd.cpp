// SPDX-License-Identifier: MIT
#include "codec/values/value_codec.h"
#include "core/rng.h"
#include "kernels/gradient/quantize.h"

namespace dragonn::codec {
namespace {

/// Rounds every magnitude, as a share of its group's Euclidean norm, at random to one of the levels, so that the
/// expectation is right. n bytes and ceil(n / group) words. A norm that is not finite says that acc holds NaN or
/// infinity.
class Qsgd final : public ValueCodec {
 public:
  explicit Qsgd(const kernels::LevelFormat& format) : format_(format) {}

  std::size_t code_bytes(std::size_t values) const override { return kernels::level_code_bytes(values, format_); }
  void encode(View<const float> values, const EncodeContext& context, View<std::byte> code) const override {
    // Every rank rounds on its own: errors of the ranks average out.
    const auto rank = static_cast<std::uint64_t>(context.rank);
    const std::uint64_t key = stream_key(context.seed, "qsgd", {context.bucket, context.step, rank});
    kernels::encode_levels(values, format_, key, code);
  }
  void sum(View<const std::byte> codes, const kernels::DecodeRule& rule, View<float> target) const override {
    kernels::decode_levels(codes, format_, rule, target);
  }

 private:
  kernels::LevelFormat format_;
};

const Registration<QuantizerEntry> registration{[] {
  QuantizerEntry entry;
  entry.name = "qsgd";
  entry.summary = "entries rounded at random to levels of a bucket's norm; one byte per entry, unbiased";
  entry.source = "arXiv:1610.02132 (QSGD, Alistarh et al., NeurIPS 2017), section 3.1; GRACE's defaults";
  entry.settings = {{.name = "levels",
                     .default_value = std::int64_t{127},
                     .help = "number of non-zero levels of a magnitude",
                     .minimum = 1,
                     .maximum = 127},
                    {.name = "group",
                     .default_value = std::int64_t{128},
                     .help = "number of neighbouring entries that share a norm",
                     .minimum = 1,
                     .maximum = 0x1p31}};
  entry.unbiased = true;
  entry.make = [](const Settings& settings) {
    return std::make_unique<Qsgd>(kernels::LevelFormat{.group = static_cast<std::size_t>(settings.integer("group")),
                                                       .levels = static_cast<int>(settings.integer("levels"))});
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::codec

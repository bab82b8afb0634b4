// SPDX-License-Identifier: MIT
// Index codec "smallest": uint8 which | the code of that codec, which is the shortest for this list.
#include <algorithm>
#include <array>
#include <limits>

#include "codec/code_bytes.h"
#include "codec/indices/index_codec.h"

namespace dragonn::codec {
namespace {

/// The codecs to choose from, by the number in the code. Behind the first they know their length.
constexpr std::array kCodecs{"rice", "blocked", "bitmap", kRawIndices};

/// Writes the code of rice, whose length only this tells, and then a shorter one if there is one.
class Smallest final : public IndexCodec {
 public:
  Smallest() {
    for (std::size_t i = 0; i < kCodecs.size(); ++i) {
      const auto& entry = Registry<IndexCodecEntry>::instance().at(kCodecs[i]);
      codecs_[i] = entry.make(Settings(entry.settings));
    }
  }

  std::size_t max_bytes(std::size_t indices) const override {
    std::size_t max = 0;
    for (const auto& codec : codecs_) max = std::max(max, codec->max_bytes(indices));
    return 1 + max;
  }

  std::size_t encode(std::span<const std::uint32_t> indices, std::span<std::byte> code) const override {
    const std::span<std::byte> scratch = code.subspan(1);
    std::size_t best = 0, fewest = codecs_.front()->encode(indices, scratch);
    for (std::size_t i = 1; i < codecs_.size(); ++i) {
      const std::size_t bytes = codecs_[i]->known_bytes(indices).value();
      if (bytes < fewest) best = i;
      fewest = std::min(fewest, bytes);
    }
    if (best != 0) codecs_[best]->encode(indices, scratch);
    store(static_cast<std::uint8_t>(best), code.data());
    return 1 + fewest;
  }

  std::span<const std::byte> decode(std::span<const std::byte> code, Buffer<std::uint32_t>& indices) const override {
    CodeReader reader("smallest", code);
    const auto which = reader.number<std::uint8_t>("the codec");
    reader.require(which < codecs_.size(), "codec {} of {}", which, codecs_.size());
    return codecs_[which]->decode(reader.rest(), indices);
  }

  double expected_bits(double indices, double numel) const override {
    if (indices <= 0) return 0;
    double fewest = std::numeric_limits<double>::infinity();
    for (const auto& codec : codecs_) fewest = std::min(fewest, codec->expected_bits(indices, numel));
    return fewest + 8 / indices;
  }

 private:
  std::array<std::unique_ptr<IndexCodec>, kCodecs.size()> codecs_;
};

const Registration<IndexCodecEntry> registration{
    {{.name = "smallest", .summary = "the shortest of rice, blocked, bitmap and raw32 for each list"},
     /*is_exact=*/false,
     /*make=*/[](const Settings&) { return std::make_unique<Smallest>(); }}};

}  // namespace
}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
/// ValueCodec: writes values as bytes, and reads them: those of a list's entries, or all values of a bucket.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "core/buffer.h"
#include "core/registry.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/quantize.h"

namespace dragonn::codec {

/// The data of a bucket whose values a rank encodes: the keys of random numbers, and the pass over acc. A list is
/// encoded without any of it.
struct EncodeContext {
  std::uint64_t seed = 1;  ///< the run's
  std::uint64_t step = 0;  ///< from 0
  int rank = 0;
  std::uint32_t bucket = 0;                   ///< index of the bucket
  const kernels::PassResult* pass = nullptr;  ///< of ValueCodec::plan(); null: the codec looks at the values itself
};

/// A codec for float32 values. It has no state: equal values and contexts give equal codes, also where a codec rounds
/// at random. Numbers in codes are little-endian. Values that are not finite decode to something that is not finite, or
/// to the largest finite number; they never break a code. A codec implements one of decode() and sum().
class ValueCodec {
 public:
  virtual ~ValueCodec() = default;

  /// Returns the length of every code of that many values, in bytes; 0 for none, unless the codec is a quantizer.
  virtual std::size_t code_bytes(std::size_t values) const = 0;
  /// Returns the request for the pass over a bucket whose result encode() takes.
  virtual kernels::PassRequest plan() const { return {}; }
  /// Writes the code of at least one value. @param values in host memory; of a quantizer, on any device, as is `code`.
  /// @param code code_bytes() long.
  virtual void encode(View<const float> values, const EncodeContext& context, View<std::byte> code) const = 0;
  /// Reads the code of `count` values, at least one, which may come from another rank. Any bytes are a code. Returns
  /// the values: in `code` itself or in `scratch`. @param code code_bytes(count) long, aligned to 4 bytes.
  virtual std::span<const float> decode(std::span<const std::byte> code, std::size_t count,
                                        Buffer<float>& scratch) const {
    resize_with_slack(scratch, count);
    sum(code, {}, scratch.view());
    return std::as_const(scratch).host();
  }
  /// Decodes codes of target.size() values each, back to back, and adds them up in their order: the same bits on every
  /// rank that has the same codes. @throws ShapeError for codes of another length.
  virtual void sum(View<const std::byte> codes, const kernels::DecodeRule& rule, View<float> target) const {
    const std::span<float> sums = target.host();
    if (!rule.keep) std::ranges::fill(sums, 0.0f);
    if (sums.empty()) return;
    const std::size_t bytes = code_bytes(sums.size());
    if (codes.size() % bytes != 0) throw ShapeError("codes of another length than their number of values says");
    Buffer<float> scratch;
    for (std::size_t begin = 0; begin < codes.size(); begin += bytes) {
      const std::span<const float> values = decode(codes.host().subspan(begin, bytes), sums.size(), scratch);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += rule.factor * values[i];
    }
  }
};

struct ValueCodecEntry : RegistryEntry {
  static constexpr const char* kKind = "value codec";
  bool lossy = true;      ///< decoded values differ from the encoded ones
  bool unbiased = false;  ///< their expectation does not
  std::function<std::unique_ptr<ValueCodec>(const Settings&)> make;
  /// Each value has a code of its own, and values are 16 bits: precise enough for partial sums to travel in.
  bool carries_sums = false;
};

/// A codec of all values of a bucket, whose indices need not be sent: a method of its own. Unless it is unbiased, a
/// memory keeps the error.
struct QuantizerEntry : ValueCodecEntry {
  static constexpr const char* kKind = "quantizer";
};

/// The name of the value codec that papers use: values as they are.
inline constexpr const char* kRawValues = "float32";

}  // namespace dragonn::codec

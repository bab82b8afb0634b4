// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/quantize_signs.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>

#include <hwy/highway.h>

#include "kernels/devices.h"
#include "kernels/gradient/quantize.h"
#include "kernels/gradient/quantize_layout.h"
#include "kernels/operation.h"
#include "kernels/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
constexpr std::size_t kLanes = hn::MaxLanes(Floats());
constexpr std::size_t kVectors = kSignsPerWord / kLanes;  // of a word's elements

std::uint32_t SignWord(const float* values) {
  const Floats d;
  std::uint32_t word = 0;
  for (std::size_t v = 0; v < kVectors; ++v) {
    std::uint8_t bytes[8] = {};  // as many as StoreMaskBits may touch
    hn::StoreMaskBits(d, hn::Ge(hn::LoadU(d, values + v * kLanes), hn::Zero(d)), bytes);
    const std::uint32_t bits = bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8;
    word |= bits << (v * kLanes);
  }
  return word;
}

/// Encodes words of values[begin, end); `begin` is the first element of a word.
void EncodeSigns(const float* values, std::size_t begin, std::size_t end, std::byte* code) {
  for (std::size_t i = begin; i < end; i += kSignsPerWord) {
    std::uint32_t word = 0;
    if (i + kSignsPerWord <= end) {
      word = SignWord(values + i);
    } else {
      for (std::size_t bit = 0; i + bit < end; ++bit) word |= (values[i + bit] >= 0 ? 1u : 0u) << bit;
    }
    store_code(word, code + sign_word_place(i / kSignsPerWord));
  }
}

/// Decodes the 32 elements of a word: the sums stay in registers while the codes pass by.
void DecodeWord(const Codes& codes, std::size_t word, const DecodeRule& rule, float* target) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  hn::Vec<Floats> sums[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = rule.keep ? hn::LoadU(d, target + v * kLanes) : hn::Zero(d);
  const auto lane_bits = hn::Shl(hn::Set(du, 1), hn::Iota(du, 0));
  for (std::size_t code = 0; code < codes.count; ++code) {
    const auto scale = hn::Set(d, rule.factor * load_code<float>(codes[code]));
    const auto signs = load_code<std::uint32_t>(codes[code] + sign_word_place(word));
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto positive = hn::TestBit(hn::Set(du, signs >> (v * kLanes)), lane_bits);
      sums[v] = hn::Add(sums[v], hn::IfThenElse(hn::RebindMask(d, positive), scale, hn::Neg(scale)));
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, target + v * kLanes);
}

/// Decodes target[begin, end); `begin` is the first element of a word.
void DecodeSigns(const Codes& codes, const DecodeRule& rule, std::size_t begin, std::size_t end, float* target) {
  std::size_t i = begin;
  for (; i + kSignsPerWord <= end; i += kSignsPerWord) DecodeWord(codes, i / kSignsPerWord, rule, target + i);
  if (i == end) return;
  float last[kSignsPerWord] = {};
  std::copy(target + i, target + end, last);
  DecodeWord(codes, i / kSignsPerWord, rule, last);
  std::copy_n(last, end - i, target + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(EncodeSigns);
HWY_EXPORT(DecodeSigns);
}  // namespace detail

std::size_t sign_code_bytes(std::size_t numel) {
  return detail::sign_word_place((numel + detail::kSignsPerWord - 1) / detail::kSignsPerWord);
}

namespace {

/// Returns pieces of whole cache lines of words.
detail::Chunks sign_chunks(std::size_t numel) {
  return {numel, 65536, 16 * detail::kSignsPerWord};
}

void encode_cpu(View<const float> values, float scale, View<std::byte> code) {
  const float* const data = values.host().data();
  std::byte* const bytes = code.host().data();
  detail::store_code(scale, bytes);
  const detail::Chunks chunks = sign_chunks(values.size());
  for_each_chunk(chunks, [&](std::size_t chunk) {
    HWY_DYNAMIC_DISPATCH(detail::EncodeSigns)(data, chunks.begin(chunk), chunks.end(chunk), bytes);
  });
}

void decode_cpu(View<const std::byte> codes, const DecodeRule& rule, View<float> target) {
  const detail::Codes list = detail::codes_of("sign codes", codes, sign_code_bytes(target.size()));
  float* const data = target.host().data();
  const detail::Chunks chunks = sign_chunks(target.size());
  for_each_chunk(chunks, [&](std::size_t chunk) {
    HWY_DYNAMIC_DISPATCH(detail::DecodeSigns)(list, rule, chunks.begin(chunk), chunks.end(chunk), data);
  });
}

bool code_fits(View<const float> values, float, View<std::byte> code) {
  detail::check_code("sign code", code.size(), sign_code_bytes(values.size()));
  return true;
}

bool codes_fit(View<const std::byte> codes, const DecodeRule&, View<float> target) {
  detail::codes_of("sign codes", codes, sign_code_bytes(target.size()));
  return true;
}

}  // namespace

constinit decltype(encode_signs) encode_signs("encode_signs", encode_cpu, code_fits);
constinit decltype(decode_signs) decode_signs("decode_signs", decode_cpu, codes_fit);

}  // namespace dragonn::kernels
#endif  // HWY_ONCE

// SPDX-License-Identifier: MIT
// Sign codes. Encoding: a thread per element, a warp per word, whose bits are the warp's ballot. Decoding: a thread per
// element adds up the codes in their order, in a register. Bytes as kernels/gradient/quantize.h says.
#include "kernels/cuda/runtime.h"
#include "kernels/gradient/quantize.h"
#include "kernels/gradient/quantize_layout.h"

namespace dragonn::kernels::cuda {
namespace {

using detail::Codes;
using detail::kSignsPerWord;

/// Encodes a word of signs per warp. The grid's threads, and so the stride, are a multiple of a warp: all lanes of a
/// warp are in the loop together.
__global__ void encode_kernel(const float* values, std::size_t size, float scale, std::byte* code) {
  if (blockIdx.x == 0 && threadIdx.x == 0) detail::store_code(scale, code);
  const std::size_t padded = (size + kSignsPerWord - 1) / kSignsPerWord * kSignsPerWord;
  for (std::size_t i = first_element(); i < padded; i += element_stride()) {
    const unsigned word = __ballot_sync(0xffffffffu, i < size && values[i] >= 0);
    if (i % kSignsPerWord == 0) detail::store_code(word, code + detail::sign_word_place(i / kSignsPerWord));
  }
}

__global__ void decode_kernel(Codes codes, DecodeRule rule, float* target, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    float sum = rule.keep ? target[i] : 0.0f;
    for (std::size_t code = 0; code < codes.count; ++code) {
      const float scale = rule.factor * detail::load_code<float>(codes[code]);
      const auto word = detail::load_code<std::uint32_t>(codes[code] + detail::sign_word_place(i / kSignsPerWord));
      sum += (word >> (i % kSignsPerWord) & 1u) != 0 ? scale : -scale;
    }
    target[i] = sum;
  }
}

void encode(View<const float> values, float scale, View<std::byte> code) {
  const Context& here = context(values.device());
  launch_over(here, "encode_signs", values.size(), encode_kernel, values.data(), values.size(), scale, code.data());
}

void decode(View<const std::byte> codes, const DecodeRule& rule, View<float> target) {
  if (target.empty()) return;
  const Context& here = context(target.device());
  const Codes list = detail::codes_of("sign codes", codes, sign_code_bytes(target.size()));
  launch_over(here, "decode_signs", target.size(), decode_kernel, list, rule, target.data(), target.size());
}

[[maybe_unused]] const bool registered =
    kernels::encode_signs.add(DeviceType::kCuda, encode) && kernels::decode_signs.add(DeviceType::kCuda, decode);

}  // namespace
}  // namespace dragonn::kernels::cuda

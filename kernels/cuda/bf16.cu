// SPDX-License-Identifier: MIT
// A thread converts four elements at a time, by one access of 16 and one of 8 bytes, where both arrays allow.
#include "kernels/cuda/bf16.h"

namespace dragonn::kernels::cuda {
namespace {

struct Round {
  using From = float;
  using FromFour = float4;
  using To = Bf16;
  using ToFour = ushort4;
  __device__ Bf16 operator()(float value) const { return to_bf16(value); }
};
struct Widen {
  using From = Bf16;
  using FromFour = ushort4;
  using To = float;
  using ToFour = float4;
  __device__ float operator()(Bf16 value) const { return from_bf16(value); }
};

template <class Conversion>
__global__ void convert_kernel(const typename Conversion::From* source, bool aligned, std::size_t size,
                               typename Conversion::To* target) {
  const Conversion convert;
  const std::size_t fours = aligned ? size / 4 : 0;
  for (std::size_t i = first_element(); i < fours; i += element_stride()) {
    const auto four = reinterpret_cast<const typename Conversion::FromFour*>(source)[i];
    reinterpret_cast<typename Conversion::ToFour*>(target)[i] = {convert(four.x), convert(four.y), convert(four.z),
                                                                 convert(four.w)};
  }
  for (std::size_t i = 4 * fours + first_element(); i < size; i += element_stride()) target[i] = convert(source[i]);
}

template <class Conversion>
void convert(Context& here, const typename Conversion::From* source, std::size_t size,
             typename Conversion::To* target) {
  if (size == 0) return;
  const auto is_aligned = [](const auto* data) {
    return reinterpret_cast<std::uintptr_t>(data) % (4 * sizeof(*data)) == 0;
  };
  const bool aligned = is_aligned(source) && is_aligned(target);
  const std::size_t threads = aligned ? (size + 3) / 4 : size;
  launch_over(here, "conversion of bf16", threads, convert_kernel<Conversion>, source, aligned, size, target);
}

}  // namespace

void round_to_bf16(Context& here, const float* source, std::size_t size, Bf16* target) {
  convert<Round>(here, source, size, target);
}

void widen_bf16(Context& here, const Bf16* source, std::size_t size, float* target) {
  convert<Widen>(here, source, size, target);
}

}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
// Level codes. Norms: a warp takes four groups, eight lanes each, whose partial sums are those of the CPU and are added
// in its order. Levels: a thread takes the four elements of a block of random numbers. Decoding: a thread per element
// adds up the codes in their order. Bytes as kernels/gradient/quantize.h says, and the values once more for the norms.
#include "core/rng.h"
#include "kernels/cuda/runtime.h"
#include "kernels/gradient/quantize.h"
#include "kernels/gradient/quantize_layout.h"

namespace dragonn::kernels::cuda {
namespace {

using detail::Codes;
using detail::LevelJob;

/// The number of partial sums of a norm: element i of a group adds to number i % 8.
constexpr unsigned kSums = 8;
constexpr unsigned kNumbersPerBlock = 4;

__global__ void norms_kernel(LevelJob job, const float* values, std::size_t size, std::byte* code) {
  const unsigned place = threadIdx.x % kSums;
  const std::size_t padded = (job.groups + 3) / 4 * 4;  // all lanes of a warp stay together
  for (std::size_t group = first_element() / kSums; group < padded; group += element_stride() / kSums) {
    const std::size_t begin = group * job.group;
    const std::size_t end = min(begin + job.group, size);
    double sum = 0;
    for (std::size_t i = begin + place; i < end; i += kSums) sum += static_cast<double>(values[i]) * values[i];
    double total = 0;
    for (unsigned part = 0; part < kSums; ++part) total += __shfl_sync(0xffffffffu, sum, part, kSums);
    if (place == 0 && group < job.groups) {
      detail::store_code(detail::level_norm(sqrt(total)), code + group * sizeof(float));
    }
  }
}

/// Returns the level of a value. A magnitude that rounding put above the norm, or a NaN, has the highest level.
__device__ std::int8_t level_of(float value, float norm, float levels, float draw) {
  const float scaled = fabsf(value) / (norm == 0 ? 1.0f : norm) * levels;
  const float y = scaled <= levels ? scaled : levels;
  const float floor = truncf(y);
  const float level = floor + (draw < y - floor ? 1.0f : 0.0f);
  return static_cast<std::int8_t>(copysignf(level, value));
}

__global__ void levels_kernel(LevelJob job, const float* values, std::size_t size, std::byte* code) {
  auto* const levels = reinterpret_cast<std::int8_t*>(code + detail::level_place(job.groups, 0));
  const std::size_t blocks = (size + kNumbersPerBlock - 1) / kNumbersPerBlock;
  for (std::size_t block = first_element(); block < blocks; block += element_stride()) {
    const PhiloxBlock draws = stream_block(job.key, block);
    for (unsigned j = 0; j < kNumbersPerBlock; ++j) {
      const std::size_t i = block * kNumbersPerBlock + j;
      if (i >= size) break;
      const auto norm = detail::load_code<float>(code + i / job.group * sizeof(float));
      levels[i] = level_of(values[i], norm, job.levels, uniform_of(draws.words[j]));
    }
  }
}

__global__ void decode_kernel(LevelJob job, Codes codes, DecodeRule rule, float* target, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    float sum = rule.keep ? target[i] : 0.0f;
    for (std::size_t code = 0; code < codes.count; ++code) {
      const auto norm = detail::load_code<float>(codes[code] + i / job.group * sizeof(float));
      const auto level = static_cast<std::int8_t>(codes[code][detail::level_place(job.groups, i)]);
      sum += rule.factor * norm / job.levels * static_cast<float>(level);
    }
    target[i] = sum;
  }
}

void encode(View<const float> values, const LevelFormat& format, std::uint64_t key, View<std::byte> code) {
  if (values.empty()) return;
  const Context& here = context(values.device());
  const LevelJob job = detail::level_job(values.size(), format, key);
  launch_over(here, "norms of levels", job.groups * kSums, norms_kernel, job, values.data(), values.size(),
              code.data());
  launch_over(here, "encode_levels", values.size() / kNumbersPerBlock + 1, levels_kernel, job, values.data(),
              values.size(), code.data());
}

void decode(View<const std::byte> codes, const LevelFormat& format, const DecodeRule& rule, View<float> target) {
  if (target.empty()) return;
  const Context& here = context(target.device());
  const Codes list = detail::codes_of("level codes", codes, level_code_bytes(target.size(), format));
  const LevelJob job = detail::level_job(target.size(), format, 0);
  launch_over(here, "decode_levels", target.size(), decode_kernel, job, list, rule, target.data(), target.size());
}

[[maybe_unused]] const bool registered =
    kernels::encode_levels.add(DeviceType::kCuda, encode) && kernels::decode_levels.add(DeviceType::kCuda, decode);

}  // namespace
}  // namespace dragonn::kernels::cuda

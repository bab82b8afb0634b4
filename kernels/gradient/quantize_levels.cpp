// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/quantize_levels.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <cmath>

#include <hwy/highway.h>

#include "kernels/devices.h"
#include "kernels/gradient/quantize.h"
#include "kernels/gradient/quantize_layout.h"
#include "kernels/operation.h"
#include "kernels/pieces.h"
#include "kernels/uniform_draws.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
constexpr std::size_t kLanes = hn::MaxLanes(Floats());

/// Returns the Euclidean norm, as the code has it. Element i adds to partial sum i % kSums; these are added in order.
float Norm(const float* values, std::size_t count) {
  constexpr std::size_t kSums = 8;
  const hn::CappedTag<double, kSums> d;
  const hn::Rebind<float, decltype(d)> df;
  constexpr std::size_t kWidth = hn::MaxLanes(decltype(d)());
  constexpr std::size_t kVectors = kSums / kWidth;
  hn::Vec<decltype(d)> squares[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) squares[v] = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto value = hn::PromoteTo(d, hn::LoadU(df, values + i + v * kWidth));
      squares[v] = hn::Add(squares[v], hn::Mul(value, value));
    }
  }
  alignas(64) double sums[kSums];
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(squares[v], d, sums + v * kWidth);
  for (std::size_t place = 0; i < count; ++i, ++place) sums[place] += static_cast<double>(values[i]) * values[i];
  double total = 0;
  for (const double sum : sums) total += sum;
  return level_norm(std::sqrt(total));
}

/// Encodes kLanes levels. A magnitude that rounding put above the norm, or a NaN, has the highest.
void EncodeLanes(const float* values, const float* draws, float norm, float levels, std::int8_t* out) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const hn::Rebind<std::int8_t, Floats> dbyte;
  const auto x = hn::LoadU(d, values);
  const auto highest = hn::Set(d, levels);
  const auto scaled = hn::Mul(hn::Div(hn::Abs(x), hn::Set(d, norm)), highest);
  const auto y = hn::IfThenElse(hn::Le(scaled, highest), scaled, highest);
  const auto floor = hn::ConvertTo(d, hn::ConvertTo(di, y));
  const auto goes_up = hn::Lt(hn::LoadU(d, draws), hn::Sub(y, floor));
  const auto level = hn::Add(floor, hn::IfThenElseZero(goes_up, hn::Set(d, 1.0f)));
  hn::StoreU(hn::DemoteTo(dbyte, hn::ConvertTo(di, hn::CopySign(level, x))), dbyte, out);
}

/// Encodes levels of `count` values of one group, of which the first is element `element` of the vector.
void EncodeGroup(const LevelJob& job, const float* values, std::size_t element, std::size_t count, float norm,
                 std::int8_t* out) {
  constexpr std::size_t kBlock = 256;
  const float divisor = norm == 0 ? 1.0f : norm;  // a group of zeros: any divisor gives the level 0
  float draws[kBlock + kLanes] = {};
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t block = std::min(kBlock, count - begin);
    uniform_draws(job.key, element + begin, std::span(draws, block));
    std::size_t i = 0;
    for (; i + kLanes <= block; i += kLanes)
      EncodeLanes(values + begin + i, draws + i, divisor, job.levels, out + begin + i);
    if (i == block) continue;
    float last_values[kLanes] = {};
    std::int8_t last_levels[kLanes];
    std::copy(values + begin + i, values + begin + block, last_values);
    EncodeLanes(last_values, draws + i, divisor, job.levels, last_levels);
    std::copy_n(last_levels, block - i, out + begin + i);
  }
}

/// Encodes norms and levels of values[begin, end); `begin` is the first element of a group.
void EncodeLevels(const LevelJob& job, const float* values, std::size_t begin, std::size_t end, std::byte* code) {
  std::int8_t* const levels = reinterpret_cast<std::int8_t*>(code + level_place(job.groups, 0));
  for (std::size_t i = begin; i < end; i += job.group) {
    const std::size_t count = std::min(job.group, end - i);
    const float norm = Norm(values + i, count);
    store_code(norm, code + i / job.group * sizeof norm);
    EncodeGroup(job, values + i, i, count, norm, levels + i);
  }
}

/// Adds: target += scale * level.
void AddLevels(const std::int8_t* levels, float scale, std::size_t count, float* target) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const hn::Rebind<std::int8_t, Floats> dbyte;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto level = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(dbyte, levels + i)));
    hn::StoreU(hn::Add(hn::LoadU(d, target + i), hn::Mul(hn::Set(d, scale), level)), d, target + i);
  }
  for (; i < count; ++i) target[i] += scale * static_cast<float>(levels[i]);
}

/// Decodes target[begin, end), from the first element of a group on. It stays in the first-level cache for all codes.
void DecodeLevels(const LevelJob& job, const Codes& codes, const DecodeRule& rule, std::size_t begin, std::size_t end,
                  float* target) {
  constexpr std::size_t kPiece = 2048;
  for (std::size_t i = begin; i < end;) {
    const std::size_t group = i / job.group;
    const std::size_t count = std::min({kPiece, end - i, (group + 1) * job.group - i});
    if (!rule.keep) std::fill_n(target + i, count, 0.0f);
    for (std::size_t code = 0; code < codes.count; ++code) {
      const float norm = load_code<float>(codes[code] + group * sizeof norm);
      const auto* const levels = reinterpret_cast<const std::int8_t*>(codes[code] + level_place(job.groups, i));
      AddLevels(levels, rule.factor * norm / job.levels, count, target + i);
    }
    i += count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(EncodeLevels);
HWY_EXPORT(DecodeLevels);
}  // namespace detail

std::size_t level_code_bytes(std::size_t numel, const LevelFormat& format) {
  DRAGONN_CHECK(format.group > 0 && format.levels > 0 && format.levels <= 127, "groups of {} with {} levels",
                format.group, format.levels);
  return detail::level_place(detail::group_count(numel, format), numel);
}

namespace {

constexpr std::size_t kPieceElements = 32768;

void encode_cpu(View<const float> values, const LevelFormat& format, std::uint64_t key, View<std::byte> code) {
  const detail::LevelJob job = detail::level_job(values.size(), format, key);
  const float* const data = values.host().data();
  std::byte* const bytes = code.host().data();
  const detail::Chunks chunks(values.size(), kPieceElements, format.group);
  for_each_chunk(chunks, [&](std::size_t chunk) {
    HWY_DYNAMIC_DISPATCH(detail::EncodeLevels)(job, data, chunks.begin(chunk), chunks.end(chunk), bytes);
  });
}

void decode_cpu(View<const std::byte> codes, const LevelFormat& format, const DecodeRule& rule, View<float> target) {
  const detail::Codes list = detail::codes_of("level codes", codes, level_code_bytes(target.size(), format));
  const detail::LevelJob job = detail::level_job(target.size(), format, 0);
  float* const data = target.host().data();
  const detail::Chunks chunks(target.size(), kPieceElements, format.group);
  for_each_chunk(chunks, [&](std::size_t chunk) {
    HWY_DYNAMIC_DISPATCH(detail::DecodeLevels)(job, list, rule, chunks.begin(chunk), chunks.end(chunk), data);
  });
}

bool code_fits(View<const float> values, const LevelFormat& format, std::uint64_t, View<std::byte> code) {
  detail::check_code("level code", code.size(), level_code_bytes(values.size(), format));
  return true;
}

bool codes_fit(View<const std::byte> codes, const LevelFormat& format, const DecodeRule&, View<float> target) {
  detail::codes_of("level codes", codes, level_code_bytes(target.size(), format));
  return true;
}

}  // namespace

constinit decltype(encode_levels) encode_levels("encode_levels", encode_cpu, code_fits);
constinit decltype(decode_levels) decode_levels("decode_levels", decode_cpu, codes_fit);

}  // namespace dragonn::kernels
#endif  // HWY_ONCE

// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/uniform_draws.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>

#include <hwy/highway.h>

#include "core/rng.h"
#include "kernels/uniform_draws.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kNumbersPerBlock = 4;

#if HWY_TARGET == HWY_SCALAR

constexpr std::size_t kStep = kNumbersPerBlock;

/// Writes the kStep numbers of the block `counter`.
void DrawBlocks(std::uint64_t key, std::uint64_t counter, float* out) {
  Rng rng(key, counter);
  for (std::size_t i = 0; i < kStep; ++i) out[i] = rng.uniform();
}

#else

// Philox4x32-10 as in core/rng.h, with a block in every lane: the lane's counter is the first one plus its place.

using Words = hn::CappedTag<std::uint32_t, 16>;
using Floats = hn::Rebind<float, Words>;
using WordVector = hn::Vec<Words>;
constexpr std::size_t kStep = kNumbersPerBlock * hn::MaxLanes(Words());

struct WideProduct {
  WordVector high;
  WordVector low;
};

HWY_INLINE WideProduct Multiply(WordVector words, std::uint32_t factor) {
  const Words d;
  const hn::RepartitionToWide<Words> wide;
  const auto factors = hn::Set(d, factor);
  const auto even = hn::MulEven(words, factors);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, words))), factors);
  return {hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even))};
}

HWY_INLINE hn::Vec<Floats> Uniform(WordVector words) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  return hn::Mul(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(words))), hn::Set(d, 0x1p-24f));
}

/// Writes the kStep numbers of the blocks from `counter` on.
void DrawBlocks(std::uint64_t key, std::uint64_t counter, float* out) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  constexpr int kRounds = 10;
  const Words d;
  const auto first = hn::Set(d, static_cast<std::uint32_t>(counter));
  auto block0 = hn::Add(first, hn::Iota(d, 0));
  const auto carry = hn::VecFromMask(d, hn::Lt(block0, first));  // all ones: minus one
  auto block1 = hn::Sub(hn::Set(d, static_cast<std::uint32_t>(counter >> 32)), carry);
  auto block2 = hn::Zero(d), block3 = hn::Zero(d);
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const WideProduct product0 = Multiply(block0, kMultiplier0), product1 = Multiply(block2, kMultiplier1);
    block0 = hn::Xor(hn::Xor(product1.high, block1), hn::Set(d, key0));
    block1 = product1.low;
    block2 = hn::Xor(hn::Xor(product0.high, block3), hn::Set(d, key1));
    block3 = product0.low;
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  hn::StoreInterleaved4(Uniform(block0), Uniform(block1), Uniform(block2), Uniform(block3), Floats(), out);
}

#endif

void UniformDraws(std::uint64_t key, std::uint64_t first, std::size_t count, float* out) {
  std::uint64_t counter = first / kNumbersPerBlock;
  std::size_t skipped = first % kNumbersPerBlock;
  while (count > 0) {
    if (skipped == 0 && count >= kStep) {
      DrawBlocks(key, counter, out);
      count -= kStep;
      out += kStep;
    } else {
      float numbers[kStep];
      DrawBlocks(key, counter, numbers);
      const std::size_t taken = std::min(count, kStep - skipped);
      std::copy_n(numbers + skipped, taken, out);
      count -= taken;
      out += taken;
      skipped = 0;
    }
    counter += kStep / kNumbersPerBlock;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(UniformDraws);
}  // namespace detail

void uniform_draws(std::uint64_t key, std::uint64_t first, std::span<float> draws) {
  HWY_DYNAMIC_DISPATCH(detail::UniformDraws)(key, first, draws.size(), draws.data());
}

}  // namespace dragonn::kernels
#endif  // HWY_ONCE

// SPDX-License-Identifier: MIT
#include "library/gradients.h"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "core/error.h"
#include "core/short_floats.h"

namespace dragonn::library {
namespace {

template <class Format>
void decode(const void* data, std::span<float> to) {
  std::transform(static_cast<const std::uint16_t*>(data), static_cast<const std::uint16_t*>(data) + to.size(),
                 to.begin(), Format::decode);
}

/// Returns whether no number's exponent is all ones, without a branch per number. @param exponent its bits.
template <class Bits>
bool all_below(const void* data, std::size_t size, Bits exponent) {
  unsigned is_bad = 0;
  for (const Bits bits : std::span(static_cast<const Bits*>(data), size))
    is_bad |= (bits & exponent) == exponent ? 1u : 0u;
  return is_bad == 0;
}

/// Writes the numbers in their type. @param encode from float32.
template <class Number, class Encode>
void write_all(std::span<const float> from, float scale, void* data, const Encode& encode) {
  std::ranges::transform(from, static_cast<Number*>(data), [&](float value) { return encode(value * scale); });
}

template <class Number, class Encode>
void write_entries(const TensorEntries& from, float scale, void* data, const Encode& encode) {
  const std::span<Number> to(static_cast<Number*>(data), from.size);
  std::ranges::fill(to, Number{});
  for (std::size_t i = 0; i < from.indices.size(); ++i) {
    to[from.indices[i] - from.begin] = encode(from.values[i] * scale);
  }
}

}  // namespace

bool Numbers::are_finite(std::size_t size) const {
  constexpr std::uint32_t kFloat32 = 0x7f800000u;
  constexpr std::uint16_t kBfloat16 = 0x7f80u, kFloat16 = 0x7c00u;
  switch (dtype) {
    case DRAGONN_BFLOAT16:
      return all_below(data, size, kBfloat16);
    case DRAGONN_FLOAT16:
      return all_below(data, size, kFloat16);
    default:
      return all_below(data, size, kFloat32);
  }
}

void Numbers::read(std::span<float> to) const {
  switch (dtype) {
    case DRAGONN_BFLOAT16:
      return decode<Bfloat16>(data, to);
    case DRAGONN_FLOAT16:
      return decode<Float16>(data, to);
    default:
      std::copy_n(static_cast<const float*>(data), to.size(), to.begin());
  }
}

void Numbers::write(std::span<const float> from, float scale) const {
  switch (dtype) {
    case DRAGONN_FLOAT32:
      return write_all<float>(from, scale, data, std::identity());
    case DRAGONN_BFLOAT16:
      return write_all<std::uint16_t>(from, scale, data, Bfloat16::encode);
    case DRAGONN_FLOAT16:
      return write_all<std::uint16_t>(from, scale, data, Float16::encode);
  }
}

void Numbers::write(const TensorEntries& from, float scale) const {
  switch (dtype) {
    case DRAGONN_FLOAT32:
      return write_entries<float>(from, scale, data, std::identity());
    case DRAGONN_BFLOAT16:
      return write_entries<std::uint16_t>(from, scale, data, Bfloat16::encode);
    case DRAGONN_FLOAT16:
      return write_entries<std::uint16_t>(from, scale, data, Float16::encode);
  }
}

void StepParts::give(std::span<const std::pair<ParameterId, Numbers>> gradients) {
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [tensor, numbers] : gradients) {
      numbers_[tensor] = numbers;
      is_given_[tensor] = true;
    }
    missing_ -= gradients.size();
    end_ = clock_.now();
  }
  changed_.notify_one();
}

void StepParts::cancel() {
  {
    const std::scoped_lock lock(mutex_);
    is_cancelled_ = true;
  }
  changed_.notify_one();
}

void StepParts::fail(const std::string& reason) {
  {
    const std::scoped_lock lock(mutex_);
    failure_ = reason;
  }
  changed_.notify_one();
}

bool StepParts::wait_for(std::span<const ParameterId> tensors) {
  std::unique_lock lock(mutex_);
  const auto given = [&] { return std::ranges::all_of(tensors, [&](ParameterId id) { return is_given_[id]; }); };
  changed_.wait(lock, [&] { return failure_ || is_cancelled_ || given(); });
  if (failure_) throw Error(*failure_);
  return !is_cancelled_;
}

bool StepParts::is_cancelled() const {
  const std::scoped_lock lock(mutex_);
  return is_cancelled_;
}

}  // namespace dragonn::library

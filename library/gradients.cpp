// SPDX-License-Identifier: MIT
#include "library/gradients.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>

#include "core/error.h"
#include "core/short_floats.h"

namespace dragonn::library {
namespace {

constexpr std::uint32_t kExponent = 0x7f800000u;  // all ones in what is not finite

/// Copies, and returns whether all numbers are finite: one pass through memory instead of two.
bool copy(const float* from, std::span<float> to) {
  std::uint32_t is_bad = 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    is_bad |= (std::bit_cast<std::uint32_t>(from[i]) & kExponent) == kExponent ? 1u : 0u;
    to[i] = from[i];
  }
  return is_bad == 0;
}

template <class Format>
bool decode(const void* data, std::span<float> to) {
  std::transform(static_cast<const std::uint16_t*>(data), static_cast<const std::uint16_t*>(data) + to.size(),
                 to.begin(), Format::decode);
  return copy(to.data(), to);
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

bool Numbers::read(std::span<float> to) const {
  switch (dtype) {
    case DRAGONN_BFLOAT16:
      return decode<Bfloat16>(data, to);
    case DRAGONN_FLOAT16:
      return decode<Float16>(data, to);
    default:
      return copy(static_cast<const float*>(data), to);
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

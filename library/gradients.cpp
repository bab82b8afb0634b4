// SPDX-License-Identifier: MIT
#include "library/gradients.h"

#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "core/short_floats.h"

namespace dragonn::library {
namespace {

template <class Format>
void decode(const void* data, std::span<float> to) {
  std::transform(static_cast<const std::uint16_t*>(data), static_cast<const std::uint16_t*>(data) + to.size(),
                 to.begin(), Format::decode);
}

template <class Format>
void encode(std::span<const float> from, void* data) {
  std::ranges::transform(from, static_cast<std::uint16_t*>(data), Format::encode);
}

}  // namespace

void Numbers::read(std::span<float> to) const {
  switch (dtype) {
    case DRAGONN_FLOAT32:
      std::copy_n(static_cast<const float*>(data), to.size(), to.begin());
      break;
    case DRAGONN_BFLOAT16:
      decode<Bfloat16>(data, to);
      break;
    case DRAGONN_FLOAT16:
      decode<Float16>(data, to);
      break;
  }
}

void Numbers::write(std::span<const float> from) const {
  switch (dtype) {
    case DRAGONN_FLOAT32:
      std::ranges::copy(from, static_cast<float*>(data));
      break;
    case DRAGONN_BFLOAT16:
      encode<Bfloat16>(from, data);
      break;
    case DRAGONN_FLOAT16:
      encode<Float16>(from, data);
      break;
  }
}

void StepParts::give(ParameterId tensor, Numbers numbers) {
  {
    const std::scoped_lock lock(mutex_);
    numbers_[tensor] = numbers;
    is_given_[tensor] = true;
    --missing_;
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

// SPDX-License-Identifier: MIT
#include "kernels/gradient/sweep_count.h"

namespace dragonn::kernels {
namespace {

/// The innermost counter of this thread, if it has one.
SweepCount*& innermost() {
  static thread_local SweepCount* counter = nullptr;
  return counter;
}

}  // namespace

SweepCount::SweepCount() : outer_(innermost()) {
  innermost() = this;
}

SweepCount::~SweepCount() {
  innermost() = outer_;
}

void count_swept(std::size_t elements) {
  if (SweepCount* const counter = innermost()) counter->elements_ += elements;
}

}  // namespace dragonn::kernels

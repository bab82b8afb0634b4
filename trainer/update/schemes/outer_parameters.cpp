// SPDX-License-Identifier: MIT
#include "trainer/update/schemes/outer_parameters.h"

#include <utility>

#include "kernels/gradient/optimizer_update.h"
#include "kernels/nn/elementwise.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer {

OuterParameters::OuterParameters(ParameterArena& arena, std::unique_ptr<optim::Optimizer> optimizer)
    : arena_(arena), optimizer_(std::move(optimizer)), kept_(arena.size(), arena.values().device()) {}

void OuterParameters::keep() {
  kernels::copy(arena_.values(), kept_.view());
}

View<const float> OuterParameters::take_change() {
  const View<float> change = arena_.gradients();
  kernels::copy(kept_.view(), change);
  // A step of SGD with rate 1 subtracts: no product is rounded.
  kernels::sgd_update({.learning_rate = 1}, kernels::GradientView(arena_.values()), {}, change);
  kernels::copy(kept_.view(), arena_.values());
  return change;
}

void OuterParameters::step(std::span<const exchange::BucketSum> sums, double learning_rate, std::uint64_t step) {
  optimizer_->begin_step(learning_rate, step);
  apply_sums(sums, 1.0f, *optimizer_);
}

}  // namespace dragonn::trainer

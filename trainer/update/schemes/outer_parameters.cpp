// SPDX-License-Identifier: MIT
#include "trainer/update/schemes/outer_parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/devices.h"
#include "kernels/gradient/optimizer_update.h"
#include "kernels/nn/elementwise.h"
#include "optim/clip.h"
#include "trainer/update/sums.h"

namespace dragonn::trainer {
namespace {

/// Subtracts: x <- x - y. A step of SGD with rate 1 rounds no product.
void subtract(View<const float> y, View<float> x) {
  kernels::sgd_update({.learning_rate = 1}, kernels::GradientView(y), {}, x);
}

}  // namespace

ParameterArena arena_like(const ParameterArena& other) {
  ParameterArena arena(other.values().device());
  for (const Parameter& tensor : other.parameters()) arena.declare(tensor.name, tensor.shape, tensor.role);
  arena.allocate();
  return arena;
}

OuterParameters::OuterParameters(ParameterArena& inner, const MakeOptimizer& make_optimizer)
    : inner_(inner),
      outer_(arena_like(inner)),
      optimizer_(make_optimizer(outer_)),
      scaling_(outer_.values().device()) {}

void OuterParameters::keep() {
  kernels::copy(inner_.values(), outer_.values());
}

View<const float> OuterParameters::take_change(Tensors tensors) {
  for (const ParameterId id : tensors) {
    kernels::copy(outer_.value(id), outer_.gradient(id));
    subtract(inner_.value(id), outer_.gradient(id));
  }
  return outer_.gradients();
}

void OuterParameters::clip_change(comm::Communicator& communicator, Tensors tensors) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  norms_.clear();
  for (const ParameterId id : tensors)
    norms_.push_back(static_cast<float>(std::sqrt(optim::squared_norm(outer_.gradient(id)))));
  of_ranks_.resize(ranks * tensors.size());
  {
    const comm::ScopedOperation operation = communicator.operation("median_clip");
    const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kHeader);
    communicator.allgather_values(std::span<const float>(norms_), std::span(of_ranks_));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    of_tensor_.clear();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const float norm = of_ranks_[rank * tensors.size() + i];
      of_tensor_.push_back(std::isnan(norm) ? std::numeric_limits<float>::infinity() : norm);
    }
    const auto median = of_tensor_.begin() + static_cast<std::ptrdiff_t>((ranks - 1) / 2);
    std::ranges::nth_element(of_tensor_, median);
    if (std::isfinite(norms_[i]) && norms_[i] > *median) scale_change(tensors.subspan(i, 1), *median / norms_[i]);
  }
}

void OuterParameters::scale_change(Tensors tensors, float factor) {
  if (scaled_.size() == 0) {
    const std::size_t largest = std::ranges::max(outer_.parameters(), {}, &Parameter::size).size;
    scaled_ = Buffer<float>(largest, outer_.values().device());
  }
  for (const ParameterId id : tensors) {
    const View<float> change = outer_.gradient(id), scaled = scaled_.view().subview(0, change.size());
    kernels::accumulate_scaled({}, change, factor, scaled, scaling_);
    kernels::copy(scaled, change);
  }
}

void OuterParameters::step(std::span<const exchange::BucketSum> sums, double learning_rate, std::uint64_t step) {
  optimizer_->begin_step(learning_rate, step);
  apply_sums(sums, 1.0f, *optimizer_);
}

void OuterParameters::give(Tensors tensors, float mix) {
  for (const ParameterId id : tensors) {
    const View<float> inner = inner_.value(id), change = outer_.gradient(id);
    if (mix == 0) {
      kernels::copy(outer_.value(id), inner);
      continue;
    }
    // The exchange is done, so the pseudo-gradient's place is free: theta -= (1 - mix) (theta - theta0).
    kernels::copy(inner, change);
    subtract(outer_.value(id), change);
    kernels::sgd_update({.learning_rate = 1 - mix}, kernels::GradientView(change), {}, inner);
  }
}

void OuterParameters::save_inner(Archive& archive, const std::string& field) const {
  kernels::put_view(archive, field, View<const float>(inner_.values()));
}

void OuterParameters::load_inner(const Archive& archive, const std::string& field) {
  keep();
  kernels::get_view(archive, field, inner_.values());
}

}  // namespace dragonn::trainer

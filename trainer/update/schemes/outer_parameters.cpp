// SPDX-License-Identifier: MIT
#include "trainer/update/schemes/outer_parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/devices.h"
#include "kernels/gradient/optimizer_update.h"
#include "kernels/nn/elementwise.h"
#include "optim/clip.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer {

OuterParameters::OuterParameters(ParameterArena& arena, std::unique_ptr<optim::Optimizer> optimizer)
    : arena_(arena),
      optimizer_(std::move(optimizer)),
      kept_(arena.size(), arena.values().device()),
      scaling_(kept_.device()) {}

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

void OuterParameters::clip_change(comm::Communicator& communicator) {
  const std::vector<Parameter>& tensors = arena_.parameters();
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto part = [](View<float> all, const Parameter& tensor) { return all.subview(tensor.offset, tensor.size); };
  norms_.clear();
  for (const Parameter& tensor : tensors)
    norms_.push_back(static_cast<float>(std::sqrt(optim::squared_norm(part(arena_.gradients(), tensor)))));
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
    if (!std::isfinite(norms_[i]) || norms_[i] <= *median) continue;
    // The pass needs other memory: theta0's place in the arena is lent to it.
    const View<float> change = part(arena_.gradients(), tensors[i]), scaled = part(arena_.values(), tensors[i]);
    kernels::accumulate_scaled({}, change, *median / norms_[i], scaled, scaling_);
    kernels::copy(scaled, change);
    kernels::copy(part(kept_.view(), tensors[i]), scaled);
  }
}

void OuterParameters::step(std::span<const exchange::BucketSum> sums, double learning_rate, std::uint64_t step) {
  optimizer_->begin_step(learning_rate, step);
  apply_sums(sums, 1.0f, *optimizer_);
}

void OuterParameters::save_inner(Archive& archive, const std::string& field) const {
  kernels::HostMirror<float> inner;
  archive.put_array<float>(field, inner.of(arena_.values()));
}

void OuterParameters::load_inner(const Archive& archive, const std::string& field) {
  keep();
  Buffer<float> inner(arena_.size());
  archive.get_array(field, inner.host());
  kernels::copy(inner.view(), arena_.values());
}

}  // namespace dragonn::trainer

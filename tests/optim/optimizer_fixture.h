// SPDX-License-Identifier: MIT
/// Helpers of the optimizer tests: small arenas on any device, optimizers from their registered names, random
/// gradients.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/parameter.h"
#include "core/rng.h"
#include "optim/optimizer.h"
#include "tests/support/devices.h"

namespace dragonn::optim {

using dragonn::test::on_device;
using Overrides = std::vector<std::pair<std::string, SettingValue>>;

inline Settings settings_of(const SettingSpecs& specs, const Overrides& overrides) {
  Settings settings(specs);
  for (const auto& [name, value] : overrides) settings.set(name, value);
  return settings;
}

inline std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const Overrides& overrides,
                                                 ParameterArena& arena) {
  const OptimizerEntry& entry = Registry<OptimizerEntry>::instance().at(name);
  return entry.make(settings_of(entry.settings, overrides), arena);
}

/// One hidden matrix [1, values] with these values and no vectors.
inline ParameterArena arena_of(std::span<const float> values, const Device& device = {}) {
  ParameterArena arena(device);
  arena.declare("weight", {1, static_cast<std::int64_t>(values.size())}, ParameterRole::kHiddenMatrix);
  arena.allocate();
  kernels::transfer(View<const float>(values), arena.values());
  return arena;
}

inline std::vector<float> normals(std::size_t size, std::uint64_t seed) {
  Rng rng(seed, "test");
  std::vector<float> values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

inline SparseVector sparse_of(std::initializer_list<std::pair<std::uint32_t, float>> entries) {
  SparseVector sparse;
  sparse.resize_discard(entries.size());
  std::size_t i = 0;
  for (const auto& [index, value] : entries) {
    sparse.indices.host()[i] = index;
    sparse.values.host()[i++] = value;
  }
  return sparse;
}

/// Draws a sparse gradient: every coordinate with probability `density`; also returns it dense.
inline std::pair<SparseVector, std::vector<float>> random_sparse(std::size_t size, double density, std::uint64_t seed) {
  Rng rng(seed, "sparse test");
  std::vector<float> dense(size, 0.0f);
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < size; ++i) {
    if (rng.uniform_double() >= density) continue;
    indices.push_back(i);
    dense[i] = rng.normal();
  }
  SparseVector sparse;
  sparse.resize_discard(indices.size());
  for (std::size_t entry = 0; entry < indices.size(); ++entry) {
    sparse.indices.host()[entry] = indices[entry];
    sparse.values.host()[entry] = dense[indices[entry]];
  }
  return {std::move(sparse), std::move(dense)};
}

inline SparseVector on_device(const SparseVector& sparse, const Device& device) {
  SparseVector copy(device);
  copy.resize_discard(sparse.size());
  kernels::transfer(sparse.indices.view(), copy.indices.view());
  kernels::transfer(sparse.values.view(), copy.values.view());
  return copy;
}

inline std::vector<float> copy(View<const float> values) {
  return dragonn::test::to_host(values);
}

/// Returns ||values - expected|| / ||expected||.
inline double relative_error(std::span<const float> values, std::span<const double> expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += (values[i] - expected[i]) * (values[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

}  // namespace dragonn::optim

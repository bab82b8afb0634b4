// SPDX-License-Identifier: MIT
/// Helpers of the tests of compress/: components by name with settings, and one step of compensate, select, settle.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "tests/support/devices.h"

namespace dragonn::compress::test {

using Overrides = std::vector<std::pair<std::string, SettingValue>>;
using Entries = std::vector<std::pair<std::uint32_t, float>>;

template <class Entry>
Settings settings_of(const std::string& name, const Overrides& overrides) {
  Settings settings(Registry<Entry>::instance().at(name).settings);
  for (const auto& [key, value] : overrides) settings.set(key, value);
  return settings;
}

inline std::unique_ptr<Sparsifier> make_sparsifier(const std::string& name, std::size_t numel,
                                                   const Overrides& overrides = {}, const Device& device = {}) {
  return Registry<SparsifierEntry>::instance().at(name).make(settings_of<SparsifierEntry>(name, overrides), numel,
                                                             device);
}

inline std::unique_ptr<Memory> make_memory(const std::string& name, std::size_t numel, const Overrides& overrides = {},
                                           float momentum = 0.5f, bool nesterov = false, const Device& device = {}) {
  return Registry<MemoryEntry>::instance().at(name).make(settings_of<MemoryEntry>(name, overrides), numel, momentum,
                                                         nesterov, device);
}

inline View<const float> view(const std::vector<float>& values) {
  return std::span<const float>(values);
}

inline SelectContext context_for(std::size_t numel, double density, std::uint64_t step = 0, std::uint64_t seed = 1) {
  return {.seed = seed, .step = step, .density = density, .k = target_count(density, numel)};
}

/// Returns the target of a sparsifier with its default settings, for a vector.
inline std::size_t target_of(const std::string& name, std::size_t numel, double density) {
  const auto& entry = Registry<SparsifierEntry>::instance().at(name);
  return entry.target(Settings(entry.settings), numel, {}, density);
}

inline Entries entries(const SparseVector& selected) {
  const std::vector<std::uint32_t> indices = dragonn::test::to_host(selected.indices.view());
  const std::vector<float> values = dragonn::test::to_host(selected.values.view());
  Entries result;
  for (std::size_t i = 0; i < indices.size(); ++i) result.emplace_back(indices[i], values[i]);
  return result;
}

inline std::vector<std::uint32_t> indices(const SparseVector& selected) {
  return dragonn::test::to_host(selected.indices.view());
}

inline std::vector<float> values(View<const float> view) {
  return dragonn::test::to_host(view);
}

/// Runs compensate and select. `selected` is overwritten. The gradient must stay until the step is settled.
inline void select_step(Sparsifier& sparsifier, Memory& memory, const SelectContext& context,
                        View<const float> gradient, SparseVector& selected, float scale = 1.0f) {
  const kernels::PassRequest request = sparsifier.plan(context);
  kernels::PassResult& pass = memory.compensate(request, gradient, scale);
  sparsifier.select(context, pass, memory.accumulated(), selected);
}
inline void select_step(Sparsifier& sparsifier, Memory& memory, const SelectContext& context,
                        const std::vector<float>& gradient, SparseVector& selected, float scale = 1.0f) {
  select_step(sparsifier, memory, context, view(gradient), selected, scale);
}

/// The selection of a fresh sparsifier from a given acc.
inline Entries select_once(const std::string& name, const std::vector<float>& acc, const SelectContext& context,
                           const Overrides& overrides = {}) {
  const auto sparsifier = make_sparsifier(name, acc.size(), overrides);
  const auto memory = make_memory("none", acc.size());
  SparseVector selected;
  select_step(*sparsifier, *memory, context, acc, selected);
  return entries(selected);
}

}  // namespace dragonn::compress::test

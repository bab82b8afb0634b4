// SPDX-License-Identifier: MIT
#include "trainer/config/config_hint.h"

#include <algorithm>
#include <utility>

#include "core/settings.h"
#include "trainer/config/config_keys.h"

namespace dragonn::trainer {
namespace {

/// Words of other programs, and their names here.
constexpr std::pair<const char*, const char*> kOtherWords[] = {
    {"lr", "learning_rate"},
    {"eta", "learning_rate"},
    {"step_size", "learning_rate"},
    {"bs", "batch_size"},
    {"batch", "batch_size"},
    {"mom", "momentum"},
    {"wd", "weight_decay"},
    {"l2", "weight_decay"},
    {"arch", "model"},
    {"accum", "gradient_accumulation"},
    {"accumulation", "gradient_accumulation"},
    {"smoothing", "label_smoothing"},
    {"compressor", "method"},
    {"compression", "method"},
    {"ratio", "density"},
    {"sparsity", "density"},
    {"bandwidth", "gbps"},
    {"latency", "latency_us"},
    {"nodes", "workers"},
    {"world_size", "workers"},
    {"ranks", "workers"},
    {"threads", "threads_per_worker"},
    {"timeout", "timeout_s"},
    {"gpu", "cuda"},
    {"nvidia", "cuda"},
};

/// The shortest name that is searched in others: shorter ones occur in too many.
constexpr std::size_t kShortestPart = 3;

std::optional<std::string> containing(const std::string& name, const std::vector<std::string>& candidates) {
  if (name.size() < kShortestPart) return std::nullopt;
  const auto found = std::ranges::find_if(
      candidates, [&](const std::string& candidate) { return candidate.find(name) != std::string::npos; });
  return found == candidates.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::optional<std::string> likely_name(const std::string& name, const std::vector<std::string>& candidates) {
  for (const auto& [other, ours] : kOtherWords) {
    if (name == other && std::ranges::count(candidates, ours) > 0) return ours;
  }
  if (const auto nearest = nearest_name(name, candidates)) return nearest;
  return containing(name, candidates);
}

std::optional<std::string> likely_table(const std::string& name, const std::vector<std::string>& tables) {
  if (const auto likely = likely_name(name, tables)) return likely;
  const auto begins = [&](const std::string& table) {
    return table.size() >= kShortestPart && name.starts_with(table);
  };
  const auto found = std::ranges::find_if(tables, begins);
  return found == tables.end() ? std::nullopt : std::optional(*found);
}

std::optional<std::string> likely_key(const std::string& name) {
  const std::vector<ConfigKey> keys = config_schema().keys;
  std::vector<std::string> names;
  for (const ConfigKey& key : keys) names.push_back(key.spec.name);
  const std::optional<std::string> meant = std::ranges::count(names, name) > 0 ? name : likely_name(name, names);
  if (!meant) return std::nullopt;
  return keys[static_cast<std::size_t>(std::ranges::find(names, *meant) - names.begin())].path();
}

}  // namespace dragonn::trainer

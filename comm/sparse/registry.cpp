// SPDX-License-Identifier: MIT
#include "comm/sparse/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dragonn::comm {
namespace {

std::string refusal(const SparseCollectiveEntry& entry, const SelectionTraits& traits) {
  return entry.refuses ? entry.refuses(traits) : std::string();
}

}  // namespace

std::unique_ptr<SparseCollective> make_collective(const std::string& name, const Settings& settings,
                                                  std::size_t numel) {
  const SparseCollectiveEntry& entry = Registry<SparseCollectiveEntry>::instance().at(name);
  std::unique_ptr<SparseCollective> collective = entry.make(settings, numel);
  collective->set_name(entry.name.c_str());
  return collective;
}

void check_pair(const SelectionTraits& traits, const std::string& sparsifier, const std::string& collective) {
  const auto& registry = Registry<SparseCollectiveEntry>::instance();
  const std::string reason = refusal(registry.at(collective), traits);
  if (reason.empty()) return;
  std::vector<std::string> fitting;
  for (const std::string& name : registry.names()) {
    if (refusal(registry.at(name), traits).empty()) fitting.push_back(name);
  }
  throw ConfigError(fmt::format("sparsifier '{}' does not go with collective '{}': {}; valid: {}", sparsifier,
                                collective, reason, fmt::join(fitting, ", ")));
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "core/registry.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

namespace dragonn {
namespace {

/// The plug-in that is being loaded; null if none is.
PluginRegistrations* loading = nullptr;

}  // namespace

RegistryBase& RegistryBase::of_type(const std::type_info& entry, std::unique_ptr<RegistryBase> (*make)()) {
  // By the type's name: a plug-in has a type_info of its own.
  static std::map<std::string, std::unique_ptr<RegistryBase>> registries;
  std::unique_ptr<RegistryBase>& registry = registries[entry.name()];
  if (!registry) registry = make();
  return *registry;
}

bool RegistryBase::claim(const char* kind, const std::string& name, const std::source_location& where) {
  const auto found = origins_.find(name);
  if (found == origins_.end()) {
    origins_[name] = {where.file_name(), loading == nullptr ? "" : loading->plugin_};
    if (loading != nullptr) loading->components_.push_back(fmt::format("{} {}", kind, name));
    return true;
  }
  const Origin& first = found->second;
  const std::string earlier = first.plugin.empty() ? first.file : fmt::format("{} ({})", first.plugin, first.file);
  std::string error = fmt::format("{} '{}' is registered by {} and by {}", kind, name, earlier, where.file_name());
  if (loading == nullptr) {
    std::fprintf(stderr, "%s\n", error.c_str());
    std::abort();
  }
  if (loading->error_.empty()) loading->error_ = std::move(error);
  return false;
}

PluginRegistrations::PluginRegistrations(std::string plugin) : plugin_(std::move(plugin)) {
  loading = this;
}

PluginRegistrations::~PluginRegistrations() {
  loading = nullptr;
}

}  // namespace dragonn

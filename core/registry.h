// SPDX-License-Identifier: MIT
/// Registry<Entry>: named components that register themselves from the file that defines them.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <source_location>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/settings.h"

namespace dragonn {

/// The description of a registered component. Registries derive their entry from it and add a factory and traits.
struct RegistryEntry {
  std::string name;            ///< as written in a config
  std::string summary;         ///< one line for `dragonn-train --list`
  std::string source = {};     ///< paper, section, equation
  SettingSpecs settings = {};  ///< keys of the component's own table; the only place of their defaults
};

/// One registry per Entry type. Entry has `static constexpr const char* kKind` ("sparsifier") and derives from
/// RegistryEntry.
template <class Entry>
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  /// Adds an entry; a Registration calls it before main. A name taken twice aborts the program and prints both files.
  void add(Entry entry, const std::source_location& where) {
    const auto found = files_.find(entry.name);
    if (found != files_.end()) {
      std::fprintf(stderr, "%s '%s' is registered by %s and by %s\n", Entry::kKind, entry.name.c_str(),
                   found->second.c_str(), where.file_name());
      std::abort();
    }
    files_[entry.name] = where.file_name();
    entries_.emplace(entry.name, std::move(entry));
  }

  /// Returns the entry with that name. @throws ConfigError that lists the valid names.
  const Entry& at(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) throw ConfigError(unknown_name_message(Entry::kKind, name, names()));
    return found->second;
  }
  bool contains(const std::string& name) const { return entries_.contains(name); }

  /// Returns the names of all entries, in ascending order.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& [name, entry] : entries_) result.push_back(name);
    return result;
  }
  /// Returns the source file that registered `name`.
  const std::string& file_of(const std::string& name) const { return files_.at(name); }

 private:
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> files_;
};

/// Registers a component: a static object of this type stands at the end of the component's .cpp file.
/// `const Registration<SparsifierEntry> registration{{{"topk", ...}, ...}};`
template <class Entry>
struct Registration {
  explicit Registration(Entry entry, std::source_location where = std::source_location::current()) {
    Registry<Entry>::instance().add(std::move(entry), where);
  }
};

}  // namespace dragonn

// SPDX-License-Identifier: MIT
/// Registry<Entry>: named components that register themselves from the file that defines them.
#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <typeinfo>
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

/// The part of a registry that does not depend on its entries. It is compiled into the program alone, and a plug-in
/// (core/plugins.h) uses the program's, however the plug-in was compiled.
class RegistryBase {
 public:
  RegistryBase() = default;
  virtual ~RegistryBase() = default;
  RegistryBase(const RegistryBase&) = delete;
  RegistryBase& operator=(const RegistryBase&) = delete;

  /// Returns the source file that registered `name`.
  const std::string& file_of(const std::string& name) const { return origins_.at(name).file; }
  /// Returns the plug-in that registered `name`; empty for a component of the program itself.
  const std::string& plugin_of(const std::string& name) const { return origins_.at(name).plugin; }

 protected:
  /// Returns the registry of a type of entries; `make` makes it the first time.
  static RegistryBase& of_type(const std::type_info& entry, std::unique_ptr<RegistryBase> (*make)());
  /// Notes who registers `name`, and returns true. A name taken twice aborts the program and prints both files; while a
  /// plug-in is loaded, the loader learns of it, and the result is false.
  bool claim(const char* kind, const std::string& name, const std::source_location& where);

 private:
  struct Origin {
    std::string file;
    std::string plugin;
  };
  std::map<std::string, Origin> origins_;
};

/// One registry per Entry type. Entry has `static constexpr const char* kKind` ("sparsifier") and derives from
/// RegistryEntry.
template <class Entry>
class Registry : public RegistryBase {
 public:
  static Registry& instance() {
    static Registry& registry = static_cast<Registry&>(
        of_type(typeid(Entry), [] { return std::unique_ptr<RegistryBase>(std::make_unique<Registry>()); }));
    return registry;
  }

  /// Adds an entry; a Registration calls it before main, or while a plug-in is loaded. See claim() for a name that is
  /// taken.
  void add(Entry entry, const std::source_location& where) {
    if (claim(Entry::kKind, entry.name, where)) entries_.emplace(entry.name, std::move(entry));
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

 private:
  std::map<std::string, Entry> entries_;
};

/// Registers a component: a static object of this type stands at the end of the component's .cpp file.
template <class Entry>
struct Registration {
  /// Registers the entry that `describe` fills in: `{[](SparsifierEntry& entry) { entry.name = "topk"; ... }}`.
  template <std::invocable<Entry&> Describe>
  explicit Registration(const Describe& describe, std::source_location where = std::source_location::current()) {
    Entry entry;
    describe(entry);
    Registry<Entry>::instance().add(std::move(entry), where);
  }
  explicit Registration(Entry entry, std::source_location where = std::source_location::current()) {
    Registry<Entry>::instance().add(std::move(entry), where);
  }
};

/// The registrations while an object of this type lives, attributed to a plug-in. There is at most one such object.
class PluginRegistrations {
 public:
  explicit PluginRegistrations(std::string plugin);
  ~PluginRegistrations();
  PluginRegistrations(const PluginRegistrations&) = delete;
  PluginRegistrations& operator=(const PluginRegistrations&) = delete;

  /// Returns what was registered, as "sparsifier every_nth".
  const std::vector<std::string>& components() const { return components_; }
  /// Returns the first name that was taken, as an error; empty if there is none.
  const std::string& error() const { return error_; }

 private:
  friend class RegistryBase;
  std::string plugin_;
  std::vector<std::string> components_;
  std::string error_;
};

}  // namespace dragonn

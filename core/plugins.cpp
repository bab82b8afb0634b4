// SPDX-License-Identifier: MIT
#include "core/plugins.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/file.h"
#include "core/plugin.h"
#include "core/printable.h"
#include "core/registry.h"

namespace dragonn {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAbiSymbol = "dragonn_plugin_abi";
/// A function of this project that every copy of its libraries has.
constexpr std::string_view kOwnSymbol = "_ZN7dragonn7versionEv";

/// Reads the defined dynamic symbols of a shared object from its bytes: a dlopen would run its initializers. Offsets
/// and sizes are checked against the file.
class SharedObject {
 public:
  /// @throws ConfigError if the bytes are no shared object.
  explicit SharedObject(std::span<const std::byte> bytes) : bytes_(bytes) {
    const auto header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_type != ET_DYN) {
      throw ConfigError("it is no shared object");
    }
    for (std::size_t i = 0; i < header->e_shnum; ++i) {
      if (const auto section = at<Elf64_Shdr>(header->e_shoff + i * header->e_shentsize)) sections_.push_back(*section);
    }
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_DYNSYM && section.sh_link < sections_.size()) {
        read_symbols(section, sections_[section.sh_link]);
      }
    }
  }

  bool defines(std::string_view symbol) const { return symbols_.contains(symbol); }

  /// Returns the text at a symbol; empty if it is not in the file.
  std::string text_at(std::string_view symbol) const {
    const Elf64_Sym& found = symbols_.at(symbol);
    if (found.st_shndx >= sections_.size()) return "";
    const Elf64_Shdr& section = sections_[found.st_shndx];
    if (section.sh_type == SHT_NOBITS || found.st_value < section.sh_addr) return "";
    const std::string_view text = text_from(section.sh_offset + (found.st_value - section.sh_addr));
    return std::string(text.substr(0, std::min<std::size_t>(found.st_size, text.size())));
  }

 private:
  template <class T>
  std::optional<T> at(std::uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  /// Returns the characters from an offset to the next zero; empty if there is none.
  std::string_view text_from(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return {};
    const auto rest = bytes_.subspan(offset);
    const auto end = std::ranges::find(rest, std::byte{0});
    if (end == rest.end()) return {};
    return {reinterpret_cast<const char*>(rest.data()), static_cast<std::size_t>(end - rest.begin())};
  }

  void read_symbols(const Elf64_Shdr& table, const Elf64_Shdr& names) {
    for (std::uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
      const auto symbol = at<Elf64_Sym>(table.sh_offset + i * sizeof(Elf64_Sym));
      if (!symbol) return;
      if (symbol->st_shndx != SHN_UNDEF) symbols_.emplace(text_from(names.sh_offset + symbol->st_name), *symbol);
    }
  }

  std::span<const std::byte> bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::map<std::string_view, Elf64_Sym> symbols_;  ///< the defined ones
};

/// Splits "dragonn 0.1.0; headers 12ab; ..." into its parts.
std::vector<std::string> parts_of(std::string_view abi) {
  std::vector<std::string> parts;
  while (!abi.empty()) {
    const std::size_t end = std::min(abi.find("; "), abi.size());
    parts.push_back(printable(abi.substr(0, end)));
    abi.remove_prefix(std::min(end + 2, abi.size()));
  }
  return parts;
}

/// Returns the parts that the other list lacks.
std::string difference(const std::vector<std::string>& parts, const std::vector<std::string>& other) {
  std::vector<std::string> lacking;
  std::ranges::copy_if(parts, std::back_inserter(lacking),
                       [&](const auto& part) { return !std::ranges::count(other, part); });
  return fmt::format("{}", fmt::join(lacking, ", "));
}

/// Checks that a file is a plug-in for this program. @throws ConfigError.
void check_fits(const fs::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  const SharedObject object(bytes);
  if (!object.defines(kAbiSymbol)) {
    throw ConfigError("it is no plug-in of dragonn: expected DRAGONN_PLUGIN in one source, or dragonn_add_plugin()");
  }
  const auto theirs = parts_of(object.text_at(kAbiSymbol)), ours = parts_of(DRAGONN_PLUGIN_ABI);
  if (theirs != ours) {
    throw ConfigError(fmt::format("it was built for {}, and this program is {}: build it again for this program",
                                  difference(theirs, ours), difference(ours, theirs)));
  }
  if (object.defines(kOwnSymbol)) {
    throw ConfigError("it contains a copy of dragonn's libraries: link it with dragonn::plugin alone");
  }
}

std::vector<LoadedPlugin> plugins;

/// @throws ConfigError without the file's name.
LoadedPlugin load(const fs::path& path) {
  check_fits(path);
  // All symbols now, since a missing one would end a run in its middle; local, since plug-ins do not need each other's.
  const PluginRegistrations registrations(path.string());
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    const char* const reason = ::dlerror();
    throw ConfigError(printable(reason == nullptr ? "it cannot be loaded" : reason));
  }
  if (!registrations.error().empty()) throw ConfigError(registrations.error());
  if (registrations.components().empty()) throw ConfigError("it registers no component");
  return {path, registrations.components()};
}

}  // namespace

void load_plugin(const fs::path& file, const std::string& named_by) {
  const fs::path path = fs::absolute(file).lexically_normal();
  const auto is_same = [&](const LoadedPlugin& other) {
    std::error_code ignored;
    return other.file == path || fs::equivalent(other.file, path, ignored);
  };
  if (std::ranges::any_of(plugins, is_same)) return;
  try {
    plugins.push_back(load(path));
  } catch (const Error& error) {
    throw ConfigError(fmt::format("{}: {}", named_by, error.what()));
  }
}

const std::vector<LoadedPlugin>& loaded_plugins() {
  return plugins;
}

}  // namespace dragonn

// SPDX-License-Identifier: MIT
#include "core/archive.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/printable.h"

namespace dragonn {
namespace {

static_assert(std::endian::native == std::endian::little, "archives are little-endian");

constexpr std::string_view kMagic = "DRAGONN\n";
constexpr std::uint32_t kVersion = 1;

/// Reads forward through the bytes of a file. Its errors name the file.
class Reader {
 public:
  Reader(const std::string& name, std::span<const std::byte> bytes) : name_(name), bytes_(bytes) {}

  std::span<const std::byte> take(std::size_t count, const std::string& what) {
    if (count > bytes_.size() - offset_) {
      throw DataError(fmt::format("{}: truncated at byte {} while reading {} ({} bytes needed, {} left)", name_,
                                  offset_, what, count, bytes_.size() - offset_));
    }
    const auto result = bytes_.subspan(offset_, count);
    offset_ += count;
    return result;
  }
  template <class T>
  T number(const std::string& what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::size_t offset() const { return offset_; }
  std::span<const std::byte> since(std::size_t start) const { return bytes_.subspan(start, offset_ - start); }
  bool at_end() const { return offset_ == bytes_.size(); }

 private:
  const std::string& name_;
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void read_field(Reader& reader, const std::string& name, Archive& archive) {
  const std::size_t start = reader.offset();
  const auto letters = reader.take(reader.number<std::uint32_t>("a field's name"), "a field's name");
  const std::string shown = excerpt({reinterpret_cast<const char*>(letters.data()), letters.size()});
  const auto bytes = reader.take(reader.number<std::uint64_t>("field " + shown), "field " + shown);
  const auto content = reader.since(start);
  if (hash_bytes(content) != reader.number<std::uint64_t>("field " + shown)) {
    throw DataError(fmt::format("{}: checksum mismatch in field '{}' at bytes {} to {}: the file is damaged", name,
                                shown, start, start + content.size() - 1));
  }
  const std::string field(reinterpret_cast<const char*>(letters.data()), letters.size());
  if (archive.contains(field)) throw DataError(fmt::format("{}: field '{}' comes twice", name, shown));
  archive.put_bytes(field, bytes);
}

}  // namespace

void Archive::put_bytes(const std::string& name, std::span<const std::byte> bytes) {
  const bool added = fields_.emplace(name, std::vector<std::byte>(bytes.begin(), bytes.end())).second;
  DRAGONN_CHECK(added, "archive field {} written twice", name);
}

std::span<const std::byte> Archive::bytes(const std::string& name) const {
  const auto found = fields_.find(name);
  if (found == fields_.end()) throw DataError(fmt::format("the checkpoint has no field '{}'", name));
  return found->second;
}

void Archive::copy_to(const std::string& name, std::span<std::byte> target) const {
  const auto source = bytes(name);
  if (source.size() != target.size()) {
    throw DataError(
        fmt::format("the checkpoint's field '{}' has {} bytes, this run needs {}", name, source.size(), target.size()));
  }
  std::ranges::copy(source, target.begin());
}

std::string Archive::get_text(const std::string& name) const {
  const auto source = bytes(name);
  return {reinterpret_cast<const char*>(source.data()), source.size()};
}

std::size_t Archive::size_bytes() const {
  std::size_t total = 0;
  for (const auto& [name, bytes] : fields_) total += bytes.size();
  return total;
}

std::vector<std::byte> to_bytes(const Archive& archive) {
  std::vector<std::byte> out;
  out.reserve(archive.size_bytes() + 64 * (archive.fields().size() + 1));
  const auto magic = std::as_bytes(std::span(kMagic));
  out.insert(out.end(), magic.begin(), magic.end());
  append(out, kVersion);
  append(out, static_cast<std::uint64_t>(archive.fields().size()));
  for (const auto& [name, bytes] : archive.fields()) {
    const std::size_t start = out.size();
    append(out, static_cast<std::uint32_t>(name.size()));
    const auto letters = std::as_bytes(std::span(name));
    out.insert(out.end(), letters.begin(), letters.end());
    append(out, static_cast<std::uint64_t>(bytes.size()));
    out.insert(out.end(), bytes.begin(), bytes.end());
    append(out, hash_bytes(std::span(out).subspan(start)));
  }
  return out;
}

Archive archive_from_bytes(std::span<const std::byte> bytes, const std::string& name) {
  Reader reader(name, bytes);
  const auto magic = reader.take(kMagic.size(), "the magic");
  if (!std::ranges::equal(magic, std::as_bytes(std::span(kMagic)))) {
    throw DataError(fmt::format("{}: not a dragonn archive (wrong magic at byte 0)", name));
  }
  const auto version = reader.number<std::uint32_t>("the version");
  if (version != kVersion) {
    throw DataError(fmt::format("{}: archive version {}, this program reads {}", name, version, kVersion));
  }
  Archive archive;
  const auto count = reader.number<std::uint64_t>("the field count");
  for (std::uint64_t i = 0; i < count; ++i) read_field(reader, name, archive);
  if (!reader.at_end()) {
    throw DataError(fmt::format("{}: {} bytes behind the last field", name, bytes.size() - reader.offset()));
  }
  return archive;
}

void Archive::write(const std::filesystem::path& path) const {
  write_file_atomically(path, to_bytes(*this));
}

Archive Archive::read(const std::filesystem::path& path) {
  return archive_from_bytes(read_file(path), path.string());
}

}  // namespace dragonn

// SPDX-License-Identifier: MIT
#include "core/archive.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/archive_view.h"
#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/printable.h"
#include "core/safetensors.h"

namespace dragonn {
namespace {

constexpr std::string_view kOldMagic = "DRAGONN\n";
constexpr const char* kFormat = "format";
constexpr const char* kFormatName = "dragonn archive 2";

std::string checksum_key(const std::string& field) {
  return "xxh3 " + field;
}

std::string checksum_of(const FileTensor& tensor) {
  const std::string text = fmt::format("{} {} [{}] {}", tensor.name, tensor.type, fmt::join(tensor.shape, ","),
                                       hash_text(hash_bytes(tensor.bytes)));
  return hash_text(hash_bytes(std::as_bytes(std::span(text))));
}

bool begins_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::ranges::equal(bytes.first(text.size()), std::as_bytes(std::span(text)));
}

/// Checks a tensor against its checksum. @param bytes of the file.
void check_field(const FileTensor& tensor, const FileMetadata& metadata, std::span<const std::byte> bytes,
                 const std::string& name) {
  const auto expected = metadata.find(checksum_key(tensor.name));
  if (expected != metadata.end() && expected->second == checksum_of(tensor)) return;
  const std::string place = tensor.bytes.empty()
                                ? ""
                                : fmt::format(" at bytes {} to {}", tensor.bytes.data() - bytes.data(),
                                              tensor.bytes.data() - bytes.data() + tensor.bytes.size() - 1);
  throw DataError(
      fmt::format("{}: checksum mismatch in field '{}'{}: the file is damaged", name, excerpt(tensor.name), place));
}

}  // namespace

void Archive::put_field(const std::string& name, Field field) {
  const bool added = fields_.emplace(name, std::move(field)).second;
  DRAGONN_CHECK(added, "archive field {} written twice", name);
}

void Archive::put_text(const std::string& name, const std::string& text) {
  put_array(name, std::span(reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

std::span<const std::byte> Archive::bytes(const std::string& name) const {
  const auto found = fields_.find(name);
  if (found == fields_.end()) throw DataError(fmt::format("the checkpoint has no field '{}'", name));
  return found->second.bytes;
}

void Archive::copy_to(const std::string& name, std::span<std::byte> target) const {
  const auto source = bytes(name);
  if (source.size() != target.size())
    throw DataError(
        fmt::format("the checkpoint's field '{}' has {} bytes, this run needs {}", name, source.size(), target.size()));
  std::ranges::copy(source, target.begin());
}

std::string Archive::get_text(const std::string& name) const {
  const auto source = bytes(name);
  return {reinterpret_cast<const char*>(source.data()), source.size()};
}

std::size_t Archive::size_bytes() const {
  std::size_t total = 0;
  for (const auto& [name, field] : fields_) total += field.bytes.size();
  return total;
}

void ArchiveView::put_field(const std::string& name, Field field) {
  const bool added = fields_.emplace(name, std::move(field)).second;
  DRAGONN_CHECK(added, "archive field {} written twice", name);
}

Pieces ArchiveView::pieces() const {
  std::vector<FileTensor> tensors;
  for (const auto& [name, field] : fields_) tensors.push_back({name, field.type, field.shape, field.bytes});
  // Large elements come first, so that each field begins at a multiple of its elements' size.
  std::ranges::stable_sort(tensors, std::greater(), [](const auto& tensor) { return element_bytes(tensor.type); });
  FileMetadata metadata{{kFormat, kFormatName}};
  for (const FileTensor& tensor : tensors) metadata.emplace(checksum_key(tensor.name), checksum_of(tensor));
  return safetensors_pieces(tensors, metadata);
}

std::vector<std::byte> to_bytes(const Archive& archive) {
  ArchiveView view;
  for (const auto& [name, field] : archive.fields()) view.put_field(name, ArchiveView::Field(field));
  return view.pieces().bytes();
}

Archive archive_from_bytes(std::span<const std::byte> bytes, const std::string& name) {
  if (begins_with(bytes, kOldMagic))
    throw DataError(
        fmt::format("{}: an archive in the format before safetensors: dragonn up to commit 60c1661 reads it", name));
  const SafetensorsFile file(bytes, name);
  const auto format = file.metadata().find(kFormat);
  if (format == file.metadata().end() || format->second != kFormatName)
    throw DataError(fmt::format("{}: a safetensors file, but no dragonn archive", name));
  Archive archive;
  for (const FileTensor& tensor : file.tensors()) {
    check_field(tensor, file.metadata(), bytes, name);
    archive.put_field(tensor.name, {tensor.type, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}});
  }
  // The checksums cover the fields; a header with any other byte than a save writes is found here.
  const std::string header = safetensors_header(file.tensors(), file.metadata());
  if (file.metadata().size() != file.tensors().size() + 1 || !begins_with(bytes, header))
    throw DataError(fmt::format("{}: the header is not as a save writes it: the file is damaged", name));
  return archive;
}

void Archive::write(const std::filesystem::path& path) const {
  write_file_atomically(path, to_bytes(*this));
}

Archive Archive::read(const std::filesystem::path& path) {
  return archive_from_bytes(read_file(path), path.string());
}

}  // namespace dragonn

// SPDX-License-Identifier: MIT
#include "core/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"

namespace dragonn {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
constexpr const char* kMetadata = "__metadata__";
/// A header is { name: { "shape": [...] } }: nothing is nested deeper.
constexpr int kDeepest = 3;

/// Parses a header and checks all that can be checked without its tensors' values. Its errors name the file.
class HeaderReader {
 public:
  HeaderReader(const std::string& name, std::span<const std::byte> file) : file_name_(name), file_(file) {}

  /// Returns the tensors in the order of their places.
  std::vector<FileTensor> read(FileMetadata& metadata) {
    const std::span<const std::byte> header = take_header();
    values_ = file_.subspan(kLengthBytes + header.size());
    const Json json = parse(header);
    std::vector<FileTensor> tensors;
    for (const auto& [name, entry] : json.items()) {
      if (name == kMetadata)
        metadata = texts_of(entry);
      else
        tensors.push_back(read_tensor(name, entry));
    }
    // In the order of their places: among equal beginnings the empty tensors come first.
    std::ranges::sort(tensors, {},
                      [](const auto& tensor) { return std::pair(tensor.bytes.data(), tensor.bytes.size()); });
    check_places(tensors);
    return tensors;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw DataError(fmt::format("{}: {}", file_name_, reason));
  }
  [[noreturn]] void fail(const std::string& name, const std::string& reason) const {
    fail(fmt::format("tensor '{}': {}", excerpt(name), reason));
  }

  std::span<const std::byte> take_header() const {
    if (file_.size() < kLengthBytes) fail(fmt::format("{} bytes are no safetensors file", file_.size()));
    std::uint64_t length = 0;
    std::memcpy(&length, file_.data(), kLengthBytes);
    const std::uint64_t max = file_.size() - kLengthBytes;
    if (length > max)
      fail(fmt::format("the header's length is {}, and {} bytes follow it: no safetensors file, or cut off", length,
                       max));
    return file_.subspan(kLengthBytes, length);
  }

  /// Parses the header. JSON's readers let a later key replace an earlier one of its name, so names are checked here.
  Json parse(std::span<const std::byte> header) const {
    std::vector<std::set<std::string>> names;  // of the objects that are open, from the outermost
    const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (depth > kDeepest) fail("the header is nested too deep");
      if (event == Json::parse_event_t::object_start) names.emplace_back();
      if (event == Json::parse_event_t::object_end) names.pop_back();
      if (event == Json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second)
        fail(fmt::format("the header names '{}' twice", excerpt(parsed.get<std::string>())));
      return true;
    };
    const auto* text = reinterpret_cast<const char*>(header.data());
    Json json;
    try {
      json = Json::parse(text, text + header.size(), check);
    } catch (const Json::parse_error& error) {
      fail(fmt::format("the header is no valid JSON from its byte {} on", error.byte));
    } catch (const Json::exception&) {
      fail("the header is no valid JSON: a number is too large");
    }
    if (!json.is_object()) fail("the header is no JSON object");
    return json;
  }

  FileMetadata texts_of(const Json& entry) const {
    FileMetadata texts;
    if (!entry.is_object()) fail(fmt::format("{} is no JSON object", kMetadata));
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail(fmt::format("{}: '{}' is no text", kMetadata, excerpt(key)));
      texts.emplace(key, value.get<std::string>());
    }
    return texts;
  }

  /// Returns an array of whole numbers of at least 0.
  std::vector<std::uint64_t> numbers(const std::string& name, const Json& entry, const char* key) const {
    const auto found = entry.find(key);
    const bool valid = found != entry.end() && found->is_array() &&
                       std::ranges::all_of(*found, [](const Json& item) { return item.is_number_unsigned(); });
    if (!valid) fail(name, fmt::format("'{}' is no list of whole numbers", key));
    return found->get<std::vector<std::uint64_t>>();
  }

  FileTensor read_tensor(const std::string& name, const Json& entry) const {
    if (!entry.is_object()) fail(name, "its entry is no JSON object");
    const auto type = entry.find("dtype");
    if (type == entry.end() || !type->is_string()) fail(name, "it has no 'dtype'");
    const auto places = numbers(name, entry, "data_offsets");
    if (places.size() != 2) fail(name, "'data_offsets' are not two numbers");
    const std::uint64_t begin = places[0], end = places[1];
    if (begin > end || end > values_.size())
      fail(name, fmt::format("data_offsets {} to {} are not in the {} bytes of values: it is truncated or damaged",
                             begin, end, values_.size()));
    FileTensor tensor{name, type->get<std::string>(), numbers(name, entry, "shape"),
                      values_.subspan(begin, end - begin)};
    std::uint64_t bytes = element_bytes(tensor.type);
    if (bytes == 0) return tensor;  // of a later version of the format
    for (const std::uint64_t extent : tensor.shape) {
      if (extent != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / extent)
        fail(name, "its shape has more elements than any file");
      bytes *= extent;
    }
    if (bytes == end - begin) return tensor;
    fail(name, fmt::format("{} bytes of data_offsets {} to {} do not fit its shape and type, which take {}",
                           end - begin, begin, end, bytes));
  }

  /// Checks that the tensors, in the order of their places, fill all bytes.
  void check_places(std::span<const FileTensor> tensors) const {
    std::size_t filled = 0;
    for (const FileTensor& tensor : tensors) {
      const auto begin = static_cast<std::size_t>(tensor.bytes.data() - values_.data());
      if (begin < filled) fail(tensor.name, "its values overlap another tensor's");
      if (begin > filled)
        fail(tensor.name, fmt::format("bytes {} to {} before its values are no tensor's", filled, begin));
      filled = begin + tensor.bytes.size();
    }
    if (filled != values_.size()) fail(fmt::format("{} bytes at its end are no tensor's", values_.size() - filled));
  }

  const std::string& file_name_;
  std::span<const std::byte> file_;
  std::span<const std::byte> values_;
};

}  // namespace

std::uint64_t element_bytes(const std::string& type) {
  static const std::map<std::string, std::uint64_t> sizes{
      {"F64", 8}, {"I64", 8}, {"U64", 8},  {"C64", 8}, {"F32", 4}, {"I32", 4},  {"U32", 4},     {"F16", 2},
      {"I16", 2}, {"U16", 2}, {"BF16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : bytes_(read_file(path)) {
  tensors_ = HeaderReader(path.string(), bytes_).read(metadata_);
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, const std::string& name)
    : tensors_(HeaderReader(name, bytes).read(metadata_)) {}

std::string safetensors_header(std::span<const FileTensor> tensors, const FileMetadata& metadata) {
  Json json = Json::object();
  json[kMetadata] = metadata;
  std::uint64_t offset = 0;
  for (const FileTensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.bytes.size();
    json[tensor.name] = {{"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json.dump();
  // Filled up with blanks, so that the values begin at a multiple of 8 bytes.
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string header(kLengthBytes, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(header.data(), &length, kLengthBytes);
  return header + text;
}

Pieces safetensors_pieces(std::span<const FileTensor> tensors, const FileMetadata& metadata) {
  Pieces file;
  file.add(safetensors_header(tensors, metadata));
  for (const FileTensor& tensor : tensors) file.refer_to(tensor.bytes);
  return file;
}

std::vector<std::byte> safetensors_bytes(std::span<const FileTensor> tensors, const FileMetadata& metadata) {
  return safetensors_pieces(tensors, metadata).bytes();
}

}  // namespace dragonn

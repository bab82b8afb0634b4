// SPDX-License-Identifier: MIT
#include "core/npy.h"

#include <bit>
#include <cstring>
#include <regex>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie in memory");

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);  // with version 1.0
constexpr std::size_t kPrefix = kMagic.size() + 2;          // and the header's length in 16 bits
constexpr std::size_t kAlignment = 64;                      // of the data, as the format asks
// Longer headers are refused: they would overflow the stack of std::regex. That of an array has 128 bytes.
constexpr std::size_t kLongestHeader = 4096;

template <class T>
constexpr std::string_view kDescription = std::is_same_v<T, float> ? "<f4" : "<i4";

std::string header(std::string_view description, const Shape& shape) {
  std::string extents = fmt::format("{}", fmt::join(shape.extents(), ", "));
  if (shape.rank() == 1) extents += ",";  // as Python writes a tuple of one
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", description, extents);
  const std::size_t unpadded = kPrefix + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  return text + "\n";
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}", path.string(), what));
}

Shape parse_shape(const std::filesystem::path& path, const std::string& text) {
  std::vector<std::int64_t> extents;
  static const std::regex number("[0-9]+");
  for (std::sregex_iterator it(text.begin(), text.end(), number), end; it != end; ++it) {
    if (it->length() > 12 || extents.size() == Shape::kMaxRank)
      fail(path, fmt::format("shape ({}) in the .npy header: at most {} axes are supported", text, Shape::kMaxRank));
    extents.push_back(std::stoll(it->str()));
  }
  return Shape(extents);
}

/// Returns the shape. @throws DataError unless the header states floats and C order.
Shape parse_header(const std::filesystem::path& path, const std::string& text) {
  static const std::regex type("'descr': *'([^']*)'"), order("'fortran_order': *(True|False)"),
      shape("'shape': *\\(([0-9, ]*)\\)");
  std::smatch type_match, order_match, shape_match;
  if (!std::regex_search(text, type_match, type) || !std::regex_search(text, order_match, order) ||
      !std::regex_search(text, shape_match, shape))
    fail(path, "the .npy header lacks descr, fortran_order or shape");
  if (type_match[1].str() != kDescription<float>)
    fail(path, fmt::format("values of type {}: {} is needed", type_match[1].str(), kDescription<float>));
  if (order_match[1] == "True") fail(path, "values in Fortran order: C order is needed");
  return parse_shape(path, shape_match[1]);
}

}  // namespace

template <class T>
void write_npy(const std::filesystem::path& path, const Shape& shape, std::span<const T> values) {
  if (shape.size() != values.size())
    throw ShapeError(fmt::format("{} values for an array of shape {}", values.size(), shape.to_string()));
  const std::string text = header(kDescription<T>, shape);
  std::vector<std::byte> bytes(kPrefix + text.size() + values.size_bytes());
  const auto length = static_cast<std::uint16_t>(text.size());
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  std::memcpy(bytes.data() + kMagic.size(), &length, sizeof length);
  std::memcpy(bytes.data() + kPrefix, text.data(), text.size());
  if (!values.empty()) std::memcpy(bytes.data() + kPrefix + text.size(), values.data(), values.size_bytes());
  write_file_atomically(path, bytes);
}

template void write_npy(const std::filesystem::path&, const Shape&, std::span<const float>);
template void write_npy(const std::filesystem::path&, const Shape&, std::span<const std::int32_t>);

NpyArray read_npy(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  if (bytes.size() < kPrefix || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    fail(path, "not a .npy file of version 1.0");
  std::uint16_t length = 0;
  std::memcpy(&length, bytes.data() + kMagic.size(), sizeof length);
  if (bytes.size() < kPrefix + length)
    fail(path, fmt::format("{} bytes end in the .npy header of {}", bytes.size(), length));
  if (length > kLongestHeader)
    fail(path, fmt::format("a .npy header of {} bytes: should have at most {}", length, kLongestHeader));
  NpyArray array;
  array.shape = parse_header(path, {reinterpret_cast<const char*>(bytes.data()) + kPrefix, length});
  const std::size_t data_bytes = bytes.size() - kPrefix - length;
  if (data_bytes != array.shape.size() * sizeof(float))
    fail(path, fmt::format("{} bytes of values for shape {}: {} are needed", data_bytes, array.shape.to_string(),
                           array.shape.size() * sizeof(float)));
  array.values.resize(array.shape.size());
  if (data_bytes > 0) std::memcpy(array.values.data(), bytes.data() + kPrefix + length, data_bytes);
  return array;
}

}  // namespace dragonn

// SPDX-License-Identifier: MIT
#include "data/images/idx.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#define ZLIB_CONST  // zlib takes its input as const
#include <zlib.h>

#include "core/error.h"
#include "core/file.h"
#include "data/folder.h"

namespace dragonn::data {
namespace {

/// Decompressed files larger than this are refused: twenty times the largest of the known sets.
constexpr std::size_t kLargestFile = std::size_t{1} << 30;
constexpr std::uint32_t kUnsignedByte = 0x08;  ///< the type code, second lowest byte of the magic number
constexpr std::size_t kWord = 4;

/// An array of unsigned bytes.
struct IdxArray {
  std::vector<std::size_t> extents;
  std::vector<std::uint8_t> values;
};

std::uint32_t big_endian(const std::vector<std::byte>& bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < kWord; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[offset + i]);
  return value;
}

void check_header(const std::filesystem::path& path, const std::vector<std::byte>& bytes, std::size_t rank) {
  const std::size_t header = kWord * (1 + rank);
  const std::uint32_t magic = kUnsignedByte << 8 | static_cast<std::uint32_t>(rank);
  if (bytes.size() >= kWord && big_endian(bytes, 0) != magic) {
    throw DataError(fmt::format("{}: magic number {:#010x} at byte 0: should be {:#010x} (IDX, unsigned bytes, {} {})",
                                path.string(), big_endian(bytes, 0), magic, rank, rank == 1 ? "axis" : "axes"));
  }
  if (bytes.size() < header) {
    throw DataError(
        fmt::format("{}: truncated at byte {}: the IDX header has {} bytes", path.string(), bytes.size(), header));
  }
}

/// Reads a file of `rank` dimensions.
IdxArray read_idx(const std::filesystem::path& path, std::size_t rank) {
  const std::vector<std::byte> bytes = read_maybe_gzip(path, kLargestFile);
  check_header(path, bytes, rank);
  const std::size_t header = kWord * (1 + rank);
  IdxArray array;
  std::uint64_t size = 1;  // limited before each product, which so cannot overflow
  for (std::size_t axis = 0; axis < rank; ++axis) {
    array.extents.push_back(big_endian(bytes, kWord * (1 + axis)));
    size = std::min<std::uint64_t>(size, kLargestFile + 1) * array.extents.back();
  }
  const bool possible = size <= kLargestFile;
  if (!possible || bytes.size() != header + size) {
    throw DataError(fmt::format("{}: ends at byte {}, but the extents in its header ({}) require {}", path.string(),
                                bytes.size(), fmt::join(array.extents, " x "),
                                possible ? fmt::format("{} bytes", header + size) : "more than any such file has"));
  }
  const auto* values = reinterpret_cast<const std::uint8_t*>(bytes.data());
  array.values.assign(values + header, values + bytes.size());
  return array;
}

bool is_gzip(const std::vector<std::byte>& bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

}  // namespace

std::vector<std::byte> read_maybe_gzip(const std::filesystem::path& path, std::size_t limit_bytes) {
  std::vector<std::byte> compressed = read_file(path);
  if (!is_gzip(compressed)) return compressed;
  DRAGONN_CHECK(std::max(limit_bytes, compressed.size()) < std::numeric_limits<uInt>::max(),
                "{} is too large to be decompressed at once", path.string());
  constexpr int kGzipWithLargestWindow = 16 + MAX_WBITS;
  z_stream stream{};
  DRAGONN_CHECK(inflateInit2(&stream, kGzipWithLargestWindow) == Z_OK, "zlib: no memory");
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> owner(&stream, &inflateEnd);
  stream.next_in = reinterpret_cast<const Bytef*>(compressed.data());
  stream.avail_in = static_cast<uInt>(compressed.size());
  const std::size_t largest = limit_bytes + 1;  // the byte too many tells a result at the limit from one beyond it
  std::vector<std::byte> out(std::min(largest, 4 * compressed.size() + 1024));
  for (;;) {
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + stream.total_out);
    stream.avail_out = static_cast<uInt>(out.size() - stream.total_out);
    const int status = inflate(&stream, Z_NO_FLUSH);
    const std::size_t produced = stream.total_out;
    if (produced > limit_bytes) {
      throw DataError(fmt::format("{}: decompresses to more than {} bytes (at byte {})", path.string(), limit_bytes,
                                  stream.total_in));
    }
    if (status == Z_STREAM_END) {
      if (stream.avail_in > 0) {
        throw DataError(
            fmt::format("{}: data after the end of the gzip stream at byte {}", path.string(), stream.total_in));
      }
      out.resize(produced);
      return out;
    }
    if (status != Z_OK || produced < out.size()) {
      throw DataError(fmt::format("{}: damaged or truncated gzip data at byte {}: {}", path.string(), stream.total_in,
                                  stream.msg != nullptr ? stream.msg : "unexpected end of the file"));
    }
    out.resize(std::min(largest, 2 * out.size()));
  }
}

ImageStore read_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels,
                           std::int64_t height, std::int64_t width, int classes) {
  IdxArray image_array = read_idx(images, 3);
  IdxArray label_array = read_idx(labels, 1);
  const std::vector<std::size_t>& extents = image_array.extents;
  if (extents[1] != static_cast<std::size_t>(height) || extents[2] != static_cast<std::size_t>(width)) {
    throw DataError(fmt::format("{}: images of {} x {} at byte {}: should be {} x {}", images.string(), extents[1],
                                extents[2], 2 * kWord, height, width));
  }
  if (extents[0] != label_array.extents[0]) {
    throw DataError(fmt::format("{}: {} labels at byte {}, but {} has {} images", labels.string(),
                                label_array.extents[0], kWord, images.string(), extents[0]));
  }
  if (extents[0] == 0) throw DataError(fmt::format("{}: no images (count 0 at byte {})", images.string(), kWord));
  const auto wrong = std::ranges::find_if(label_array.values, [&](std::uint8_t label) { return label >= classes; });
  if (wrong != label_array.values.end()) {
    const auto offset = 2 * kWord + static_cast<std::size_t>(wrong - label_array.values.begin());
    throw DataError(
        fmt::format("{}: label {} at byte {}: should be 0 to {}", labels.string(), *wrong, offset, classes - 1));
  }
  return {height, width, 1, std::move(image_array.values), std::move(label_array.values)};
}

namespace {

constexpr std::int64_t kSide = 28;
constexpr int kClasses = 10;

/// Returns the plain file if it is there, else the compressed one.
std::filesystem::path find_file(const std::string& folder, const std::string& file, const std::string& name) {
  const std::filesystem::path plain = std::filesystem::path(folder) / file;
  const std::filesystem::path compressed = plain.string() + ".gz";
  if (std::filesystem::exists(plain)) return plain;
  if (std::filesystem::exists(compressed)) return compressed;
  throw missing_data(plain.string() + "[.gz]: no such file", name, folder);
}

ImageStore read_split(const std::string& folder, const std::string& split, const std::string& name) {
  return read_idx_images(find_file(folder, split + "-images-idx3-ubyte", name),
                         find_file(folder, split + "-labels-idx1-ubyte", name), kSide, kSide, kClasses);
}

DatasetEntry entry(const std::string& name, const std::string& summary, const std::string& source,
                   const ImageTraits& traits) {
  const auto load = [name, traits](const Settings& settings, const std::string& folder, std::uint64_t /*seed*/) {
    require_folder(folder, name);
    return make_image_splits(read_split(folder, "train", name), read_split(folder, "t10k", name), traits, settings);
  };
  return {{name, summary, source, image_file_settings(false)}, load, true, {kSide, kSide, 1}, kClasses};
}

// Moments over all pixels of the 60,000 training images.
const Registration<DatasetEntry> mnist{entry("mnist", "28x28 grey digits of 10 classes, IDX files",
                                             "LeCun et al., Gradient-based learning applied to document recognition",
                                             {kClasses, {{0.1307f, 0.3081f}}, false})};
const Registration<DatasetEntry> fashion_mnist{
    entry("fashion_mnist", "28x28 grey pieces of clothing of 10 classes, IDX files", "Xiao et al., arXiv:1708.07747",
          {kClasses, {{0.2860f, 0.3530f}}, true})};

}  // namespace
}  // namespace dragonn::data

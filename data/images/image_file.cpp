// SPDX-License-Identifier: MIT
#include "data/images/image_file.h"

#include <cerrno>
#include <cstring>
#include <string_view>
#include <unistd.h>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::data {
namespace {

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void ImageFile::set_size(std::uint64_t height, std::uint64_t width, std::uint64_t max_pixels) {
  constexpr std::uint64_t kSide = kMaxSide, kPixels = kMaxPixels;
  if (height == 0 || width == 0 || height > kSide || width > kSide || height * width > kPixels) {
    throw DataError(
        fmt::format("{}: its header states {} x {} pixels: should be sides of 1 to {}, and at most {} pixels", name_,
                    height, width, kSide, kPixels));
  }
  if (height * width > max_pixels) {
    throw DataError(fmt::format("{}: its header states {} x {} pixels: its bytes hold at most {}", name_, height, width,
                                max_pixels));
  }
  size_ = {static_cast<std::int64_t>(height), static_cast<std::int64_t>(width)};
}

std::unique_ptr<ImageFile> open_image(std::span<const std::byte> bytes, const std::string& name) {
  if (text(bytes).starts_with("\xff\xd8\xff")) return detail::open_jpeg(bytes, name);
  if (text(bytes).starts_with("\x89PNG\r\n\x1a\n")) return detail::open_png(bytes, name);
  throw DataError(
      fmt::format("{}: neither JPEG nor PNG: its {} bytes do not begin as such files do", name, bytes.size()));
}

void detail::require_end(Bytes bytes, std::size_t from, std::string_view mark, const std::string& name) {
  if (text(bytes).find(mark, from) != std::string_view::npos) return;
  throw DataError(fmt::format("{}: truncated: it ends at byte {} without the mark of its end", name, bytes.size()));
}

namespace {

constexpr std::size_t kLargestFile = std::size_t{256} << 20;
constexpr std::size_t kKeptBytes = std::size_t{16} << 20;  ///< memory beyond this is given back after each image

DataError unreadable(const std::filesystem::path& path, int code) {
  return DataError(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(code)));
}

/// Opens a file. @throws DataError naming it: what was there when the folder was listed is a sample, whatever it is.
RegularFile open_sample(const std::filesystem::path& path) {
  try {
    return open_regular_file(path);
  } catch (const Error& error) {
    throw DataError(error.what());
  }
}

/// Reads a whole file into `bytes`. @throws DataError naming it.
void read_bytes(const std::filesystem::path& path, std::vector<std::byte>& bytes) {
  const RegularFile file = open_sample(path);
  const std::size_t size = file.bytes;
  if (size > kLargestFile) {
    throw DataError(fmt::format("{}: {} bytes: should be at most {}", path.string(), size, kLargestFile));
  }
  bytes.resize(size);
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = ::read(file.descriptor.get(), bytes.data() + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw unreadable(path, errno);
    if (count == 0) throw DataError(fmt::format("{}: truncated: it shrank while it was read", path.string()));
    done += static_cast<std::size_t>(count);
  }
}

template <class T>
void give_back_excess(std::vector<T>& memory) {
  if (memory.capacity() > kKeptBytes) std::vector<T>().swap(memory);
}

}  // namespace

RgbView ImageReader::read(const std::filesystem::path& path, const std::function<Region(ImageSize)>& choose) {
  give_back_excess(bytes_);
  give_back_excess(rgb_);
  read_bytes(path, bytes_);
  const std::unique_ptr<ImageFile> file = open_image(bytes_, path.string());
  const Region region = choose(file->size());
  file->decode(region, rgb_);
  return {rgb_.data(), {region.height, region.width}, static_cast<std::size_t>(region.width) * 3};
}

ImageSize with_shorter_side(ImageSize size, std::int64_t side) {
  if (size.height <= size.width) return {side, side * size.width / size.height};
  return {side * size.height / size.width, side};
}

}  // namespace dragonn::data

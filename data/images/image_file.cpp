// SPDX-License-Identifier: MIT
#include "data/images/image_file.h"

#include <string_view>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::data {
namespace {

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void ImageFile::set_size(std::uint64_t height, std::uint64_t width, std::uint64_t most_pixels) {
  constexpr std::uint64_t kSide = kMostSide, kPixels = kMostPixels;
  if (height == 0 || width == 0 || height > kSide || width > kSide || height * width > kPixels) {
    throw DataError(
        fmt::format("{}: its header states {} x {} pixels: should be sides of 1 to {}, and at most {} pixels", name_,
                    height, width, kSide, kPixels));
  }
  if (height * width > most_pixels) {
    throw DataError(fmt::format("{}: its header states {} x {} pixels: its bytes hold at most {}", name_, height, width,
                                most_pixels));
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

}  // namespace dragonn::data

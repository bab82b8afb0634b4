// SPDX-License-Identifier: MIT
/// ImageFile: a JPEG or PNG file in memory, decoded to 8-bit RGB by libjpeg-turbo or libpng.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/images/resample.h"

namespace dragonn::data {

/// Images with more pixels are refused, so that a header cannot ask for any amount of memory. ImageNet's largest has 61
/// million.
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 26;
/// The longest side of an image, in pixels: JPEG's own limit.
inline constexpr std::int64_t kMaxSide = 65535;

/// An image file whose header has been read. Grey, palette, CMYK and 16-bit images become 8-bit RGB; transparency is
/// dropped, colour profiles are ignored.
class ImageFile {
 public:
  virtual ~ImageFile() = default;
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;

  ImageSize size() const { return size_; }
  /// Decodes a part of the image: the same bits as that part of the whole image. May be called once. @param region
  /// within size().  @param rgb [region.height, region.width, 3], overwritten; grows as needed.
  /// @throws DataError naming the file and the offset of the fault.
  virtual void decode(const Region& region, std::vector<std::uint8_t>& rgb) = 0;

 protected:
  explicit ImageFile(std::string name) : name_(std::move(name)) {}
  /// Takes the size that the header states. @param max_pixels that the bytes of the file can stand for.
  /// @throws DataError for no pixels, more than kMaxPixels or `max_pixels`, or a side beyond kMaxSide.
  void set_size(std::uint64_t height, std::uint64_t width, std::uint64_t max_pixels);
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  ImageSize size_;
};

/// Reads the header of a file. The content decides about the format, not the name: ImageNet has a PNG named .JPEG.
/// @param bytes outlives the result.  @param name of the file, for errors.  @throws DataError naming the file, for
/// another format, a damaged header, or a file without its end.
std::unique_ptr<ImageFile> open_image(std::span<const std::byte> bytes, const std::string& name);

/// Reads and decodes files, one after the other, into the same memory. That of an unusually large image is given back.
class ImageReader {
 public:
  /// Reads the part of an image that `choose` picks, given its size. The result is valid until the next call.
  /// @throws DataError naming the file if it is damaged, too large, or cannot be read.
  RgbView read(const std::filesystem::path& path, const std::function<Region(ImageSize)>& choose);

  Resampler resampler;

 private:
  std::vector<std::uint8_t> rgb_;
};

/// Returns the size whose shorter side is `side`, with the proportions of `size`.
ImageSize with_shorter_side(ImageSize size, std::int64_t side);

}  // namespace dragonn::data

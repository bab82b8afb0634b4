// SPDX-License-Identifier: MIT
/// ImageCache: decoded and resized images in one memory-mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "core/error.h"
#include "data/images/image_file.h"
#include "data/images/resample.h"

namespace dragonn::data {

/// The images of a cache, and how to make them.
struct ImageCacheRules {
  std::size_t images = 0;
  std::int64_t shorter_side = 0;  ///< of the stored images, in pixels
  std::uint64_t fingerprint = 0;  ///< of the list of files
  std::size_t threads = 1;        ///< that make the cache
  /// Returns the path of an image.
  std::function<std::filesystem::path(std::size_t image)> path;
  /// Takes the fault of an image, which the cache then holds without pixels; throws to stop.
  std::function<void(const DataError& fault)> fault;
};

/// An open cache file, format in docs/formats.md. Pages are read when they are used and may be dropped at any time, so
/// it may be larger than the memory. Any number of threads and processes read one.
class ImageCache {
 public:
  /// Opens the cache, which is made first if there is no such file: processes of one machine wait for the first of
  /// them, which makes it. A cache that is stopped while it is made leaves `path`.part.
  /// @throws DataError naming the file if it is damaged; ConfigError if it holds other images than the rules state;
  /// SystemError if it cannot be written.
  ImageCache(const std::filesystem::path& path, const ImageCacheRules& rules);
  ~ImageCache();
  ImageCache(const ImageCache&) = delete;
  ImageCache& operator=(const ImageCache&) = delete;

  /// Returns an image; no pixels if it was damaged when the cache was made.
  RgbView image(std::size_t index) const;

 private:
  std::span<const std::byte> file_;
};

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include "data/images/image_cache.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "core/file.h"
#include "core/hash.h"
#include "data/folder.h"
#include "data/share_items.h"

namespace dragonn::data {

/// The place of an image in the file; the file has one for each image, behind its header.
struct ImageCache::Record {
  std::uint64_t offset = 0;
  std::uint32_t height = 0;
  std::uint32_t width = 0;

  std::uint64_t bytes() const { return std::uint64_t{3} * height * width; }
};

namespace {

constexpr std::array<char, 8> kMagic{'D', 'R', 'G', 'N', 'I', 'M', 'G', '1'};
/// Images that are decoded before they are written, times the threads: the memory that making a cache takes.
constexpr std::size_t kRound = 16;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t images = 0;
  std::uint64_t shorter_side = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t checksum = 0;  ///< of all records
};

SystemError system_error(const char* action, const std::filesystem::path& path) {
  return SystemError(fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(errno)));
}

/// Writes a file from its beginning, and then its beginning.
class Writer {
 public:
  Writer(int file, std::filesystem::path path) : file_(file), path_(std::move(path)) {
    if (::ftruncate(file, 0) != 0) throw system_error("write", path_);
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw system_error("write", path_);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
  }
  void publish(const std::filesystem::path& name) {
    if (::fsync(file_) != 0) throw system_error("write", path_);
    if (::rename(path_.c_str(), name.c_str()) != 0) throw system_error("rename into place", path_);
    sync_directory(name.parent_path().empty() ? "." : name.parent_path());
  }

 private:
  int file_;
  std::filesystem::path path_;
};

/// An image as a cache stores it, or why there is none.
struct Stored {
  std::vector<std::uint8_t> pixels;
  ImageSize size;
  std::optional<DataError> fault;
};

void store(ImageReader& reader, const std::filesystem::path& path, std::int64_t shorter_side, Stored& image) {
  image.fault.reset();
  image.size = {};
  try {
    const RgbView whole = reader.read(path, [](ImageSize size) { return Region{0, 0, size.height, size.width}; });
    const ImageSize size = with_shorter_side(whole.size, shorter_side);
    if (size.height > kMaxPixels / size.width) {
      throw DataError(fmt::format("{}: {} x {} pixels are too narrow for a cache of images of {} pixels", path.string(),
                                  whole.size.height, whole.size.width, shorter_side));
    }
    image.pixels.resize(static_cast<std::size_t>(size.height * size.width) * 3);
    reader.resampler.resize(whole, size, {0, 0, size.height, size.width}, false, image.pixels);
    image.size = size;
  } catch (const DataError& error) {
    image.fault = error;
  }
}

/// Opens the file that becomes the cache, and locks it: waits while another process makes the cache.
Descriptor locked_part(const std::filesystem::path& part) {
  Descriptor file = open_regular_file(part, O_RDWR | O_CREAT).descriptor;
  while (::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) throw system_error("lock", part);
  }
  return file;
}

/// Decodes all images, and writes them in their order. @param offset of the first one.  @param records the place of
/// each, overwritten.
template <class Record>
void write_images(const ImageCacheRules& rules, std::uint64_t offset, std::vector<Record>& records, Writer& writer) {
  std::vector<ImageReader> readers(rules.threads);
  std::vector<Stored> round(kRound * rules.threads);
  for (std::size_t begin = 0; begin < rules.images; begin += round.size()) {
    const std::size_t count = std::min(round.size(), rules.images - begin);
    share_items(rules.threads, count, [&](std::size_t item, std::size_t thread) {
      store(readers[thread], rules.path(begin + item), rules.shorter_side, round[item]);
    });
    for (std::size_t item = 0; item < count; ++item) {
      const Stored& image = round[item];
      if (image.fault) rules.fault(*image.fault);
      Record& record = records[begin + item];
      record = {offset, static_cast<std::uint32_t>(image.size.height), static_cast<std::uint32_t>(image.size.width)};
      writer.write(offset, std::as_bytes(std::span(image.pixels)).first(record.bytes()));
      offset += record.bytes();
    }
  }
}

template <class Record>
void make_cache(const std::filesystem::path& path, const ImageCacheRules& rules) {
  const std::filesystem::path part = path.string() + ".part";
  const Descriptor file = locked_part(part);
  if (is_there(path)) return;  // another process made it meanwhile
  Writer writer(file.get(), part);
  std::vector<Record> records(rules.images);
  write_images(rules, sizeof(Header) + rules.images * sizeof(Record), records, writer);
  const auto bytes = std::as_bytes(std::span(records));
  Header header{.images = rules.images,
                .shorter_side = static_cast<std::uint64_t>(rules.shorter_side),
                .fingerprint = rules.fingerprint,
                .checksum = hash_bytes(bytes)};
  writer.write(sizeof(Header), bytes);
  writer.write(0, std::as_bytes(std::span(&header, 1)));
  writer.publish(path);
}

std::span<const std::byte> map_file(const std::filesystem::path& path) {
  const RegularFile file = open_regular_file(path);
  const std::size_t size = file.bytes;
  if (size < sizeof(Header)) {
    throw DataError(fmt::format("{}: truncated: it ends at byte {}, within its header", path.string(), size));
  }
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor.get(), 0);
  if (memory == MAP_FAILED) throw system_error("map", path);
  ::madvise(memory, size, MADV_RANDOM);  // advice only: it may fail
  return {static_cast<const std::byte*>(memory), size};
}

}  // namespace

ImageCache::ImageCache(const std::filesystem::path& path, const ImageCacheRules& rules) {
  if (!is_there(path)) make_cache<Record>(path, rules);
  file_ = map_file(path);
  try {
    check(path, rules);
  } catch (...) {
    ::munmap(const_cast<std::byte*>(file_.data()), file_.size());
    throw;
  }
}

ImageCache::~ImageCache() {
  ::munmap(const_cast<std::byte*>(file_.data()), file_.size());
}

void ImageCache::check(const std::filesystem::path& path, const ImageCacheRules& rules) {
  Header header;
  std::memcpy(&header, file_.data(), sizeof(Header));
  const std::string name = path.string();
  if (header.magic != kMagic) throw DataError(fmt::format("{}: not a cache of images (byte 0)", name));
  if (header.images != rules.images || header.shorter_side != static_cast<std::uint64_t>(rules.shorter_side) ||
      header.fingerprint != rules.fingerprint) {
    throw ConfigError(
        fmt::format("{}: a cache of {} images with shorter sides of {} pixels, not of the {} images in data.path with "
                    "{} pixels: delete it, or name another data.cache",
                    name, header.images, header.shorter_side, rules.images, rules.shorter_side));
  }
  if (header.images > (file_.size() - sizeof(Header)) / sizeof(Record)) {
    throw DataError(
        fmt::format("{}: truncated: it ends at byte {}, within the places of its images", name, file_.size()));
  }
  if (hash_bytes(std::as_bytes(records())) != header.checksum) {
    throw DataError(
        fmt::format("{}: damaged: the checksum at byte {} does not match", name, offsetof(Header, checksum)));
  }
  for (const Record& record : records()) {
    if (record.offset <= file_.size() && record.bytes() <= file_.size() - record.offset) continue;
    throw DataError(fmt::format("{}: truncated: it ends at byte {}, before the image that begins at byte {} does", name,
                                file_.size(), record.offset));
  }
}

std::span<const ImageCache::Record> ImageCache::records() const {
  Header header;
  std::memcpy(&header, file_.data(), sizeof(Header));
  return {reinterpret_cast<const Record*>(file_.data() + sizeof(Header)), header.images};
}

RgbView ImageCache::image(std::size_t index) const {
  const Record& record = records()[index];
  return {reinterpret_cast<const std::uint8_t*>(file_.data() + record.offset),
          {record.height, record.width},
          std::size_t{3} * record.width};
}

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include "data/images/image_file.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs FILE
#include <cstring>
#include <jerror.h>
#include <jpeglib.h>
#include <png.h>
#include <string_view>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::data {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kRgb = 3, kCmyk = 4;
constexpr std::size_t kLargestFile = std::size_t{256} << 20;
constexpr std::size_t kKeptBytes = std::size_t{16} << 20;  ///< memory beyond this is given back after each image

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Reads a whole file. @throws DataError naming it: what was there when the folder was listed is a sample, whatever it
/// is.
std::vector<std::byte> read_sample(const std::filesystem::path& path) {
  try {
    return read_file(path, kLargestFile);
  } catch (const Error& error) {
    throw DataError(error.what());
  }
}

/// Checks that `mark` occurs at or after byte `from`. @throws DataError naming the file: it is truncated.
void require_end(Bytes bytes, std::size_t from, std::string_view mark, const std::string& name) {
  if (text(bytes).find(mark, from) != std::string_view::npos) return;
  throw DataError(fmt::format("{}: truncated: it ends at byte {} without the mark of its end", name, bytes.size()));
}

/// Progressive files with more scans are refused: each takes a pass over the whole image, whatever its bytes.
constexpr int kMaxScans = 500;
/// Columns decoded beside a region: the upsampling of chroma reads the neighbours of a pixel.
constexpr std::int64_t kMargin = 32;
/// Every block has a bit at least, and every 128 pixels a block, with any sampling of the components.
constexpr std::uint64_t kMaxJpegPixelsPerByte = 8 * 128;

/// The C structures that libjpeg calls back with. libjpeg cannot be left by an exception, so errors jump.
struct Callbacks {
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf escape;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* const callbacks = static_cast<Callbacks*>(info->client_data);
  callbacks->errors.format_message(info, callbacks->message.data());
  std::longjmp(callbacks->escape, 1);
}

/// Makes errors of the warnings that leave a part of the image undefined. Others, as stray bytes between markers, occur
/// in ImageNet and do no harm.
void note(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC) {
    leave(info);
  }
}

void limit_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  info->err->msg_code = JERR_BAD_PROGRESSION;
  leave(info);
}

/// Photoshop stores CMYK inverted, and says so by its marker: 255 is no ink. `inks` become light.
void cmyk_to_rgb(const std::uint8_t* inks, std::int64_t pixels, bool inverted, std::uint8_t* rgb) {
  for (std::int64_t i = 0; i < pixels; ++i, inks += kCmyk, rgb += kRgb) {
    const unsigned flip = inverted ? 0 : 255;
    const unsigned light = inks[3] ^ flip;
    for (std::size_t c = 0; c < kRgb; ++c) rgb[c] = static_cast<std::uint8_t>(((inks[c] ^ flip) * light + 127) / 255);
  }
}

class JpegFile final : public ImageFile {
 public:
  JpegFile(Bytes bytes, const std::string& name) : ImageFile(name), bytes_(bytes) {
    info_.err = jpeg_std_error(&callbacks_.errors);
    info_.client_data = &callbacks_;
    callbacks_.errors.error_exit = leave;
    callbacks_.errors.emit_message = note;
    callbacks_.progress.progress_monitor = limit_scans;
    try {
      guarded([&] { read_header(); });
      set_size(info_.image_height, info_.image_width, bytes_.size() * kMaxJpegPixelsPerByte);
      require_end(bytes_, offset(), "\xff\xd9", name);
    } catch (...) {
      jpeg_destroy_decompress(&info_);
      throw;
    }
  }
  ~JpegFile() override { jpeg_destroy_decompress(&info_); }

  void decode(const Region& region, std::vector<std::uint8_t>& rgb) override {
    const bool cmyk = info_.num_components == 4;
    info_.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    // The columns that libjpeg decodes; it moves `left` down to the start of a block.
    JDIMENSION left = static_cast<JDIMENSION>(std::max<std::int64_t>(0, region.left - kMargin));
    const std::int64_t end = std::min(size().width, region.left + region.width + kMargin);
    JDIMENSION width = static_cast<JDIMENSION>(end) - left;
    guarded([&] {
      jpeg_start_decompress(&info_);
      if (width < info_.output_width) jpeg_crop_scanline(&info_, &left, &width);
      if (region.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(region.top));
    });
    const std::size_t channels = cmyk ? kCmyk : kRgb;
    line_.resize(width * channels);
    rgb.resize(static_cast<std::size_t>(region.height * region.width) * kRgb);
    const std::uint8_t* const first = line_.data() + (static_cast<std::size_t>(region.left) - left) * channels;
    std::uint8_t* out = rgb.data();
    for (std::int64_t row = 0; row < region.height; ++row, out += static_cast<std::size_t>(region.width) * kRgb) {
      guarded([&] {
        JSAMPROW line = line_.data();
        jpeg_read_scanlines(&info_, &line, 1);
      });
      if (cmyk) {
        cmyk_to_rgb(first, region.width, info_.saw_Adobe_marker != 0, out);
      } else {
        std::copy_n(first, static_cast<std::size_t>(region.width) * kRgb, out);
      }
    }
  }

 private:
  void read_header() {
    jpeg_create_decompress(&info_);
    info_.progress = &callbacks_.progress;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&info_, TRUE);
  }
  std::size_t offset() const { return bytes_.size() - (info_.src != nullptr ? info_.src->bytes_in_buffer : 0); }

  /// Calls libjpeg. Its errors jump over the frames of `action`, which therefore own nothing. @throws DataError.
  template <class Action>
  void guarded(const Action& action) {
    if (setjmp(callbacks_.escape) != 0) {
      throw DataError(fmt::format("{}: damaged JPEG at byte {}: {}", name(), offset(), callbacks_.message.data()));
    }
    action();
  }

  Bytes bytes_;
  jpeg_decompress_struct info_{};
  Callbacks callbacks_{};
  std::vector<std::uint8_t> line_;
};

/// Deflate makes at most 1032 bytes of one, and a byte holds at most 8 pixels.
constexpr std::uint64_t kMaxPngPixelsPerByte = 8 * 1032;
constexpr png_alloc_size_t kMaxChunk = 8u << 20;       ///< bytes of a chunk that is kept, as a colour profile
constexpr std::size_t kSignature = 8, kChunkHead = 8;  ///< bytes before the content of the first chunk

class PngFile final : public ImageFile {
 public:
  PngFile(Bytes bytes, const std::string& name) : ImageFile(name), bytes_(bytes) {
    require_end(bytes, kSignature + kChunkHead, "IEND", name);
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) throw SystemError(fmt::format("{}: no memory to read it", name));
    try {
      guarded([&] { read_header(); });
      set_size(png_get_image_height(png_, info_), png_get_image_width(png_, info_),
               bytes_.size() * kMaxPngPixelsPerByte);
    } catch (...) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
  }
  ~PngFile() override { png_destroy_read_struct(&png_, &info_, nullptr); }

  void decode(const Region& region, std::vector<std::uint8_t>& rgb) override {
    int passes = 1;
    guarded([&] { passes = set_up_rows(); });
    const std::size_t row_bytes = static_cast<std::size_t>(size().width) * kRgb;
    const std::size_t used_bytes = static_cast<std::size_t>(region.width) * kRgb;
    const std::size_t first = static_cast<std::size_t>(region.left) * kRgb;
    // Each pass of an interlaced file adds pixels to rows of the passes before.
    const std::int64_t kept_rows = passes > 1 ? size().height : 1;
    rows_.assign(static_cast<std::size_t>(kept_rows) * row_bytes, 0);
    rgb.resize(static_cast<std::size_t>(region.height) * used_bytes);
    for (int pass = 0; pass < passes; ++pass) {
      const bool last = pass + 1 == passes;
      const std::int64_t rows = last ? region.top + region.height : size().height;
      for (std::int64_t row = 0; row < rows; ++row) {
        std::uint8_t* const line = rows_.data() + static_cast<std::size_t>(row % kept_rows) * row_bytes;
        guarded([&] { png_read_row(png_, line, nullptr); });
        if (!last || row < region.top) continue;
        std::copy_n(line + first, used_bytes, rgb.data() + static_cast<std::size_t>(row - region.top) * used_bytes);
      }
    }
  }

 private:
  void read_header() {
    png_set_read_fn(png_, this, read);
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);  // set_size() has narrower ones
    png_set_chunk_malloc_max(png_, kMaxChunk);
    png_read_info(png_, info_);
  }
  /// Asks for 8-bit RGB, whatever is stored. @return the passes over the rows.
  int set_up_rows() {
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != static_cast<std::size_t>(size().width) * kRgb) {
      png_error(png_, "rows do not become 8-bit RGB");
    }
    return passes;
  }

  static void read(png_structp png, png_bytep out, std::size_t count) {
    auto* const file = static_cast<PngFile*>(png_get_io_ptr(png));
    if (count > file->bytes_.size() - file->offset_) png_error(png, "the file ends within a chunk");
    std::memcpy(out, file->bytes_.data() + file->offset_, count);
    file->offset_ += count;
  }
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* const file = static_cast<PngFile*>(png_get_error_ptr(png));
    std::snprintf(file->message_.data(), file->message_.size(), "%s", message);
    png_longjmp(png, 1);
  }
  /// Calls libpng. Its errors jump over the frames of `action`, which therefore own nothing. @throws DataError.
  template <class Action>
  void guarded(const Action& action) {
    if (setjmp(png_jmpbuf(png_)) != 0) {
      throw DataError(fmt::format("{}: damaged PNG at byte {}: {}", name(), offset_, message_.data()));
    }
    action();
  }

  Bytes bytes_;
  std::size_t offset_ = 0;
  std::array<char, 200> message_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<std::uint8_t> rows_;
};

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
  if (text(bytes).starts_with("\xff\xd8\xff")) return std::make_unique<JpegFile>(bytes, name);
  if (text(bytes).starts_with("\x89PNG\r\n\x1a\n")) return std::make_unique<PngFile>(bytes, name);
  throw DataError(
      fmt::format("{}: neither JPEG nor PNG: its {} bytes do not begin as such files do", name, bytes.size()));
}

RgbView ImageReader::read(const std::filesystem::path& path, const std::function<Region(ImageSize)>& choose) {
  if (rgb_.capacity() > kKeptBytes) std::vector<std::uint8_t>().swap(rgb_);
  const std::vector<std::byte> bytes = read_sample(path);
  const std::unique_ptr<ImageFile> file = open_image(bytes, path.string());
  const Region region = choose(file->size());
  file->decode(region, rgb_);
  return {rgb_.data(), {region.height, region.width}, static_cast<std::size_t>(region.width) * 3};
}

ImageSize with_shorter_side(ImageSize size, std::int64_t side) {
  if (size.height <= size.width) return {side, side * size.width / size.height};
  return {side * size.height / size.width, side};
}

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
/// PNG files, decoded by libpng.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <png.h>

#include <fmt/format.h>

#include "core/error.h"
#include "data/images/image_file.h"

namespace dragonn::data {
namespace {

constexpr std::size_t kRgb = 3;
/// Deflate makes at most 1032 bytes of one, and a byte holds at most 8 pixels.
constexpr std::uint64_t kMaxPixelsPerByte = 8 * 1032;
constexpr png_alloc_size_t kMaxChunk = 8u << 20;       ///< bytes of a chunk that is kept, as a colour profile
constexpr std::size_t kSignature = 8, kChunkHead = 8;  ///< bytes before the content of the first chunk

class PngFile final : public ImageFile {
 public:
  PngFile(detail::Bytes bytes, const std::string& name) : ImageFile(name), bytes_(bytes) {
    detail::require_end(bytes, kSignature + kChunkHead, "IEND", name);
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) throw SystemError(fmt::format("{}: no memory to read it", name));
    try {
      guarded([&] { read_header(); });
      set_size(png_get_image_height(png_, info_), png_get_image_width(png_, info_), bytes_.size() * kMaxPixelsPerByte);
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

  detail::Bytes bytes_;
  std::size_t offset_ = 0;
  std::array<char, 200> message_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<std::uint8_t> rows_;
};

}  // namespace

std::unique_ptr<ImageFile> detail::open_png(Bytes bytes, const std::string& name) {
  return std::make_unique<PngFile>(bytes, name);
}

}  // namespace dragonn::data

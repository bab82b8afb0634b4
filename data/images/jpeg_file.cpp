// SPDX-License-Identifier: MIT
/// JPEG files, decoded by libjpeg-turbo.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs FILE
#include <jerror.h>
#include <jpeglib.h>

#include <fmt/format.h>

#include "core/error.h"
#include "data/images/image_file.h"

namespace dragonn::data {
namespace {

/// Progressive files with more scans are refused: each takes a pass over the whole image, whatever its bytes.
constexpr int kMaxScans = 500;
/// Columns decoded beside a region: the upsampling of chroma reads the neighbours of a pixel.
constexpr std::int64_t kMargin = 32;
constexpr std::size_t kRgb = 3, kCmyk = 4;
/// Every block has a bit at least, and every 128 pixels a block, with any sampling of the components.
constexpr std::uint64_t kMaxPixelsPerByte = 8 * 128;

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
  JpegFile(detail::Bytes bytes, const std::string& name) : ImageFile(name), bytes_(bytes) {
    info_.err = jpeg_std_error(&callbacks_.errors);
    info_.client_data = &callbacks_;
    callbacks_.errors.error_exit = leave;
    callbacks_.errors.emit_message = note;
    callbacks_.progress.progress_monitor = limit_scans;
    try {
      guarded([&] { read_header(); });
      set_size(info_.image_height, info_.image_width, bytes_.size() * kMaxPixelsPerByte);
      detail::require_end(bytes_, offset(), "\xff\xd9", name);
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
      skip_rows(region.top);
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
  void skip_rows(std::int64_t rows) {
    if (rows > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(rows));
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

  detail::Bytes bytes_;
  jpeg_decompress_struct info_{};
  Callbacks callbacks_{};
  std::vector<std::uint8_t> line_;
};

}  // namespace

std::unique_ptr<ImageFile> detail::open_jpeg(Bytes bytes, const std::string& name) {
  return std::make_unique<JpegFile>(bytes, name);
}

}  // namespace dragonn::data

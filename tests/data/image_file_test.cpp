// SPDX-License-Identifier: MIT
#include "data/images/image_file.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/rng.h"
#include "data/images/resample.h"
#include "tests/data/image_files.h"

namespace dragonn::data {
namespace {

Bytes decoded(const Bytes& file, const Region& region) {
  Bytes rgb;
  open_image(std::as_bytes(std::span(file)), "photo")->decode(region, rgb);
  return rgb;
}

Bytes cut(const Bytes& pixels, int width, const Region& region) {
  Bytes part;
  for (std::int64_t y = region.top; y < region.top + region.height; ++y) {
    const auto begin = pixels.begin() + (y * width + region.left) * 3;
    part.insert(part.end(), begin, begin + region.width * 3);
  }
  return part;
}

int largest_difference(const Bytes& a, const Bytes& b) {
  REQUIRE(a.size() == b.size());
  int largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// The fault of a file; "no error" if it has none.
std::string fault_of(const Bytes& file) {
  return error_of<DataError>([&] {
    const auto image = open_image(std::as_bytes(std::span(file)), "photo");
    Bytes rgb;
    image->decode({0, 0, image->size().height, image->size().width}, rgb);
  });
}

Bytes resized(const Bytes& pixels, ImageSize from, ImageSize to, bool mirrored = false) {
  Bytes out(static_cast<std::size_t>(to.height * to.width) * 3);
  Resampler().resize({pixels.data(), from, static_cast<std::size_t>(from.width) * 3}, to, {0, 0, to.height, to.width},
                     mirrored, out);
  return out;
}

TEST_SUITE("data") {
  TEST_CASE("grey, CMYK, transparent and 16-bit images become 8-bit RGB") {
    const Region whole{0, 0, 20, 30};
    const Bytes rgb = smooth_pixels(20, 30, 3), grey = smooth_pixels(20, 30, 1);
    Bytes grey_rgb, cmyk, cmyk_rgb, alpha, deep;
    for (std::size_t i = 0; i < grey.size(); ++i) {
      grey_rgb.insert(grey_rgb.end(), 3, grey[i]);
      cmyk.insert(cmyk.end(), {rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2], 128});  // Adobe's: inverted
      for (std::size_t c = 0; c < 3; ++c) cmyk_rgb.push_back(static_cast<std::uint8_t>(rgb[3 * i + c] * 128 / 255));
      alpha.insert(alpha.end(), {rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2], static_cast<std::uint8_t>(i)});
    }
    for (const std::uint8_t value : rgb) deep.insert(deep.end(), {value, value});  // 257 v of 65535 is v of 255
    CHECK(decoded(png_bytes(rgb, 20, 30, PNG_COLOR_TYPE_RGB), whole) == rgb);
    CHECK(decoded(png_bytes(rgb, 20, 30, PNG_COLOR_TYPE_RGB, 8, true), whole) == rgb);
    CHECK(decoded(png_bytes(alpha, 20, 30, PNG_COLOR_TYPE_RGB_ALPHA), whole) == rgb);
    CHECK(decoded(png_bytes(deep, 20, 30, PNG_COLOR_TYPE_RGB, 16), whole) == rgb);
    CHECK(decoded(png_bytes(grey, 20, 30, PNG_COLOR_TYPE_GRAY), whole) == grey_rgb);
    // JPEG is lossy; the tolerances are those of quality 95 on smooth pixels with halved chroma.
    CHECK(largest_difference(decoded(jpeg_bytes(grey, 20, 30, 1), whole), grey_rgb) <= 8);
    CHECK(largest_difference(decoded(jpeg_bytes(cmyk, 20, 30, 4), whole), cmyk_rgb) <= 8);
    CHECK(largest_difference(decoded(jpeg_bytes(grey_rgb, 20, 30), whole), grey_rgb) <= 8);
  }

  TEST_CASE("a part of an image has the bits of that part of the whole") {
    const int height = 83, width = 121;
    const Bytes pixels = smooth_pixels(height, width, 3);
    const std::vector<Bytes> files{jpeg_bytes(pixels, height, width), jpeg_bytes(pixels, height, width, 3, true),
                                   png_bytes(pixels, height, width, PNG_COLOR_TYPE_RGB),
                                   png_bytes(pixels, height, width, PNG_COLOR_TYPE_RGB, 8, true)};
    Rng rng(1, "regions");
    for (const Bytes& file : files) {
      const Bytes whole = decoded(file, {0, 0, height, width});
      for (int i = 0; i < 40; ++i) {
        Region region{static_cast<std::int64_t>(rng.below(height)), static_cast<std::int64_t>(rng.below(width))};
        region.height = 1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(height - region.top)));
        region.width = 1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(width - region.left)));
        INFO(region.top, " ", region.left, " ", region.height, " ", region.width);
        CHECK(decoded(file, region) == cut(whole, width, region));
      }
    }
  }

  TEST_CASE("a truncated or damaged image is an error that names the file") {
    const Bytes pixels = smooth_pixels(40, 50, 3);
    const std::vector<Bytes> files{jpeg_bytes(pixels, 40, 50), jpeg_bytes(pixels, 40, 50, 3, true),
                                   png_bytes(pixels, 40, 50, PNG_COLOR_TYPE_RGB)};
    for (const Bytes& file : files) {
      CHECK(fault_of(file) == "no error");
      for (std::size_t size = 0; size < file.size() - 1; size += 7) {
        const std::string fault = fault_of(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)));
        INFO(size, " bytes: ", fault);
        CHECK(fault.starts_with("photo: "));
      }
      for (std::size_t place = 0; place < file.size(); place += 5) {  // whatever comes out, no memory is damaged
        Bytes damaged = file;
        damaged[place] ^= 0xff;
        const std::string fault = fault_of(damaged);
        CHECK((fault == "no error" || fault.starts_with("photo: ")));
      }
    }
    const Bytes half(files[0].begin(), files[0].begin() + static_cast<std::ptrdiff_t>(files[0].size() / 2));
    CHECK(contains(fault_of(half), "truncated: it ends at byte " + std::to_string(half.size())));
    CHECK(contains(fault_of({}), "neither JPEG nor PNG: its 0 bytes"));
  }

  TEST_CASE("a header cannot ask for more memory than the largest image takes") {
    Bytes jpeg = jpeg_bytes(smooth_pixels(8, 8, 3), 8, 8);
    const std::uint8_t start_of_frame[] = {0xff, 0xc0};
    const auto frame = std::ranges::search(jpeg, start_of_frame).begin();
    for (int i = 5; i < 9; ++i) frame[i] = 0xf0;  // height and width
    CHECK(contains(fault_of(jpeg), "its header states 61680 x 61680 pixels: should be sides of 1 to 65535"));
    CHECK(contains(fault_of(png_bytes(Bytes(70000 * 3), 1, 70000, PNG_COLOR_TYPE_RGB)), "states 1 x 70000 pixels"));
    for (int i = 5; i < 9; ++i) frame[i] = 0x1f;
    CHECK(contains(fault_of(jpeg), "states 7967 x 7967 pixels: its bytes hold at most"));
    const Bytes black(1000 * 1000 * 3);  // what one color takes the fewest bytes for
    CHECK(fault_of(png_bytes(black, 1000, 1000, PNG_COLOR_TYPE_RGB)) == "no error");
    CHECK(fault_of(jpeg_bytes(black, 1000, 1000)) == "no error");
    CHECK(fault_of(jpeg_bytes(black, 1000, 1000, 3, true)) == "no error");
  }

  TEST_CASE("resizing is a triangle filter that widens when an image shrinks") {
    const Bytes pixels = smooth_pixels(12, 16, 3);
    CHECK(resized(pixels, {12, 16}, {12, 16}) == pixels);
    CHECK(resized(Bytes(12 * 16 * 3, 77), {12, 16}, {5, 31}) == Bytes(5 * 31 * 3, 77));
    const Bytes mirrored = resized(pixels, {12, 16}, {12, 16}, true);
    for (std::size_t x = 0; x < 16; ++x) CHECK(mirrored[3 * x] == pixels[3 * (15 - x)]);
    // Two pixels to four: the outer ones as they are, those between at 1/4 and 3/4.
    CHECK(resized({0, 0, 0, 200, 200, 200}, {1, 2}, {1, 4}) ==
          Bytes{0, 0, 0, 50, 50, 50, 150, 150, 150, 200, 200, 200});
    // Four to two: weights 3/8, 3/8, 1/8 and the border's 1/8, as far as there are pixels.
    const Bytes halved = resized({0, 0, 0, 70, 70, 70, 140, 140, 140, 210, 210, 210}, {1, 4}, {1, 2});
    CHECK(halved[0] == 50);  // (3 * 0 + 3 * 70 + 1 * 140) / 7
    CHECK(halved[3] == 160);
  }
}

}  // namespace
}  // namespace dragonn::data

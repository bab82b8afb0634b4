// SPDX-License-Identifier: MIT
#include "data/text/utf8.h"

#include <cstdint>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "data/folder.h"

namespace dragonn::data {
namespace {

/// The bytes that may follow a first byte: the length of the character, and the range of its second byte, which
/// excludes overlong forms, surrogates and values beyond U+10FFFF. All further bytes are 0x80 to 0xBF.
struct Lead {
  std::size_t length = 0;
  std::uint8_t second_low = 0x80;
  std::uint8_t second_high = 0xBF;
};

Lead lead_of(std::uint8_t first) {
  if (first < 0x80) return {1};
  if (first < 0xC2) return {0};
  if (first < 0xE0) return {2};
  if (first == 0xE0) return {3, 0xA0, 0xBF};
  if (first == 0xED) return {3, 0x80, 0x9F};
  if (first < 0xF0) return {3};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first < 0xF4) return {4};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t offset) { return static_cast<std::uint8_t>(text[position + offset]); };
  const Lead lead = lead_of(byte(0));
  if (lead.length <= 1) return lead.length;
  if (text.size() - position < lead.length) return 0;
  if (byte(1) < lead.second_low || byte(1) > lead.second_high) return 0;
  for (std::size_t offset = 2; offset < lead.length; ++offset) {
    if (byte(offset) < 0x80 || byte(offset) > 0xBF) return 0;
  }
  return lead.length;
}

std::string TextPlace::text() const {
  return fmt::format("{}:{}", file.string(), line);
}

void require_utf8(std::string_view text, const TextPlace& place, std::size_t offset) {
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t length = utf8_length(text, position);
    if (length == 0) {
      throw DataError(fmt::format("{}: byte {:#04x} at offset {} is not UTF-8", place.text(),
                                  static_cast<std::uint8_t>(text[position]), offset + position));
    }
    position += length;
  }
}

std::string read_utf8_file(const std::filesystem::path& path, BadSamples& bad) {
  const std::string all = read_text_file(path);
  std::string text;
  text.reserve(all.size());
  std::size_t number = 0, offset = 0;
  for_each_line(all, [&](std::string_view line) {
    const std::string_view with_newline = std::string_view(all).substr(offset, line.size() + 1);
    if (bad.accept([&] { require_utf8(line, {path, ++number}, offset); })) text += with_newline;
    offset += with_newline.size();
  });
  return text;
}

}  // namespace dragonn::data

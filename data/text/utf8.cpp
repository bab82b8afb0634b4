// SPDX-License-Identifier: MIT
#include "data/text/utf8.h"

#include <algorithm>
#include <iterator>
#include <utf8proc.h>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::data {
namespace {

utf8proc_category_t category_of(std::uint32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

struct Range {
  std::uint32_t first, last;
};
constexpr Range kIdeographs[]{{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
                              {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0x2F800, 0x2FA1F}};

}  // namespace

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

std::uint32_t next_character(std::string_view text, std::size_t& position) {
  char32_t character = static_cast<unsigned char>(text[position]);
  position += std::max<std::size_t>(utf8_character(text, position, character), 1);
  return character;
}

void append_character(std::uint32_t character, std::string& text) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  text.append(bytes, bytes + length);
}

bool is_space(std::uint32_t character) {
  if (character == '\t' || character == '\n' || character == '\r') return true;
  const auto category = category_of(character);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool is_control(std::uint32_t character) {
  const auto category = category_of(character);
  const bool is_listed = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || character == 0xFFFD;
  return is_listed && !is_space(character);
}

bool is_punctuation(std::uint32_t character) {
  const auto category = category_of(character);
  const bool is_symbol_of_ascii =
      category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO && character < 0x80;
  return is_symbol_of_ascii || (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO);
}

bool is_letter(std::uint32_t character) {
  const auto category = category_of(character);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(std::uint32_t character) {
  const auto category = category_of(character);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_ideograph(std::uint32_t character) {
  return std::ranges::any_of(kIdeographs,
                             [&](const Range& range) { return range.first <= character && character <= range.last; });
}

std::uint32_t lower_case(std::uint32_t character) {
  return static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character)));
}

std::uint32_t without_accent(std::uint32_t character) {
  utf8proc_int32_t parts[4];
  int boundary = UTF8PROC_BOUNDCLASS_START;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), parts, std::size(parts),
                                             UTF8PROC_DECOMPOSE, &boundary);
  const auto is_accent = [](utf8proc_int32_t part) { return utf8proc_category(part) == UTF8PROC_CATEGORY_MN; };
  if (count < 1 || count > std::ssize(parts) || !std::all_of(parts + 1, parts + count, is_accent)) return character;
  return is_accent(parts[0]) ? 0 : static_cast<std::uint32_t>(parts[0]);
}

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include "data/text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "data/folder.h"

namespace dragonn::data {

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

namespace {

struct Range {
  std::uint32_t first, last;
};

bool is_in(std::span<const Range> ranges, std::uint32_t character) {
  return std::ranges::any_of(ranges, [&](Range range) { return range.first <= character && character <= range.last; });
}

constexpr Range kSpaces[]{{' ', ' '},       {'\t', '\n'},     {'\r', '\r'},     {0xA0, 0xA0},     {0x1680, 0x1680},
                          {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
constexpr Range kControls[]{{0x00, 0x08},     {0x0B, 0x0C},     {0x0E, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},
                            {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064}, {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}};
constexpr Range kPunctuation[]{{'!', '/'},       {':', '@'},       {'[', '`'},       {'{', '~'},       {0xA1, 0xA1},
                               {0xA7, 0xA7},     {0xAB, 0xAB},     {0xB6, 0xB7},     {0xBB, 0xBB},     {0xBF, 0xBF},
                               {0x2010, 0x2027}, {0x2030, 0x2043}, {0x2045, 0x2051}, {0x2053, 0x205E}, {0x3001, 0x3003},
                               {0x3008, 0x3011}, {0x3014, 0x301F}};
constexpr Range kIdeographs[]{{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
                              {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0x2F800, 0x2FA1F}};

/// The letters below the accents of U+00C0 to U+017F, by Unicode's canonical decomposition; '?' where there is none.
constexpr std::string_view kLetters =
    "AAAAAA?CEEEEIIII?NOOOOO??UUUUY??aaaaaa?ceeeeiiii?nooooo??uuuuy?y"
    "AaAaAaCcCcCcCcDd??EeEeEeEeEeGgGgGgGgHh??IiIiIiIiI???JjKk?LlLlLl????NnNnNn???OoOoOo??RrRrRrSsSsSsSsTtTt??"
    "UuUuUuUuUuUuWwYyYZzZzZz?";
constexpr std::uint32_t kFirstLetter = 0xC0;
static_assert(kLetters.size() == 0x180 - kFirstLetter);

}  // namespace

std::uint32_t next_character(std::string_view text, std::size_t& position) {
  const std::size_t length = std::max<std::size_t>(utf8_length(text, position), 1);
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  std::uint32_t character = length == 1 ? byte(position) : byte(position) & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) character = character << 6 | (byte(position + i) & 0x3F);
  position += length;
  return character;
}

void append_character(std::uint32_t character, std::string& text) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (character < 0x80) return add(character);
  const int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  constexpr std::uint32_t kLeads[]{0, 0xC0, 0xE0, 0xF0};
  add(kLeads[more] | character >> (6 * more));
  for (int i = more - 1; i >= 0; --i) add(0x80 | (character >> (6 * i) & 0x3F));
}

bool is_space(std::uint32_t character) {
  return is_in(kSpaces, character);
}
bool is_control(std::uint32_t character) {
  return is_in(kControls, character);
}
bool is_punctuation(std::uint32_t character) {
  return is_in(kPunctuation, character);
}
bool is_ideograph(std::uint32_t character) {
  return is_in(kIdeographs, character);
}

std::uint32_t lower_case(std::uint32_t character) {
  const auto within = [&](std::uint32_t first, std::uint32_t last) { return first <= character && character <= last; };
  if (within('A', 'Z') || (within(0xC0, 0xDE) && character != 0xD7)) return character + 0x20;
  if (within(0x391, 0x3A9) || within(0x410, 0x42F)) return character + 0x20;
  if (within(0x400, 0x40F)) return character + 0x50;
  if (character == 0x130) return 'i';
  if (character == 0x178) return 0xFF;
  // In these runs a capital letter comes before its small one, at even places or at odd ones.
  const bool even = within(0x100, 0x137) || within(0x14A, 0x177), odd = within(0x139, 0x148) || within(0x179, 0x17E);
  if ((even && character % 2 == 0) || (odd && character % 2 == 1)) return character + 1;
  return character;
}

std::uint32_t without_accent(std::uint32_t character) {
  if (0x300 <= character && character <= 0x36F) return 0;
  if (character < kFirstLetter || character >= kFirstLetter + kLetters.size()) return character;
  const char letter = kLetters[character - kFirstLetter];
  return letter == '?' ? character : static_cast<std::uint32_t>(letter);
}

}  // namespace dragonn::data

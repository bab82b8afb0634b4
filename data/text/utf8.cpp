// SPDX-License-Identifier: MIT
#include "data/text/utf8.h"

#include <cstdint>

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

}  // namespace dragonn::data

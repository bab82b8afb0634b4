// SPDX-License-Identifier: MIT
#include "core/utf8.h"

#include <cstdint>

namespace dragonn {
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

}  // namespace dragonn

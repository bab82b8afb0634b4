// SPDX-License-Identifier: MIT
#include "core/printable.h"

namespace dragonn {

std::string printable(std::string_view text) {
  std::string shown(text);
  unsigned char before = 0;
  for (char& character : shown) {
    const auto byte = static_cast<unsigned char>(character);
    const bool second_of_control = before == 0xc2 && byte >= 0x80 && byte < 0xa0;  // U+0080 to U+009F in UTF-8
    if (byte < 0x20 || byte == 0x7f || second_of_control) character = '?';
    before = byte;
  }
  return shown;
}

}  // namespace dragonn

// SPDX-License-Identifier: MIT
/// UTF-8: walks the characters of a text.
#pragma once

#include <cstddef>
#include <string_view>

namespace dragonn {

/// Returns the bytes of the character that begins at `position`: 1 to 4, or 0 if no well-formed one does (RFC 3629:
/// shortest forms only, no surrogates, at most U+10FFFF). `position` < text.size().
std::size_t utf8_length(std::string_view text, std::size_t position);

}  // namespace dragonn

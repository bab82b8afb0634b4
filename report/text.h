// SPDX-License-Identifier: MIT
/// Text for pages and figures.
#pragma once

#include <string>
#include <string_view>

namespace dragonn::report {

/// Plain text as the content of an HTML or SVG element.
std::string markup_escaped(std::string_view text);

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// Text helpers for pages, figures and the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/units_text.h"
#include "report/run.h"

namespace dragonn::report {

/// Escapes plain text for the content of an HTML or SVG element.
std::string markup_escaped(std::string_view text);

/// Returns the number of characters of UTF-8 text, as a terminal counts columns.
std::size_t width(std::string_view text);
/// Breaks lines between words; every line ends with a line end.
std::string wrapped(std::string_view text, std::size_t columns);

/// Returns "31.2 s", of three digits.
std::string seconds_text(double seconds);
/// Returns a ratio as "12.3x".
std::string ratio_text(double ratio);

/// Returns "100 Mbit/s, 100 us latency", or the preset's name if nothing more is known.
std::string network_text(const Network& network);
/// Returns "compute time is measured CPU time".
std::string compute_text(const Network& network);

}  // namespace dragonn::report

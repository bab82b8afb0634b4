// SPDX-License-Identifier: MIT
/// Text helpers for pages, figures and the terminal.
#pragma once

#include <string>
#include <string_view>

#include "core/units_text.h"
#include "report/run.h"

namespace dragonn::report {

/// Escapes plain text for the content of an HTML or SVG element.
std::string markup_escaped(std::string_view text);

/// Returns "100 Mbit/s, 100 us latency", or the preset's name if nothing more is known.
std::string network_text(const Network& network);
/// Returns "compute time is measured CPU time".
std::string compute_text(const Network& network);

}  // namespace dragonn::report

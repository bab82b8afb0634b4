// SPDX-License-Identifier: MIT
/// Terminal: the comparison in a few lines of text.
#pragma once

#include <cstddef>
#include <string>

#include "report/compare.h"

namespace dragonn::report {

inline constexpr std::size_t kTerminalColumns = 100;

/// Returns a table of the groups and a sentence on the measurement; no line is wider than kTerminalColumns.
std::string terminal_summary(const Comparison& comparison);

/// Returns "Target: 0.9 of dense's final accuracy ...; 4 workers; virtual time: modelled network ...".
std::string measured_text(const Comparison& comparison);

}  // namespace dragonn::report

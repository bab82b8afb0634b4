// SPDX-License-Identifier: MIT
/// Page: the comparison as one HTML file that needs nothing else.
#pragma once

#include <string>

#include "report/compare.h"

namespace dragonn::report {

/// HTML with style, data, drawing code and chart library inside. `title` is plain text.
std::string html_page(const Comparison& comparison, const std::string& title);

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// Page: the comparison as one HTML file that needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"
#include "report/fit.h"

namespace dragonn::report {

/// HTML with style, data, drawing code and chart library inside. `title` is plain text; `fits` may be empty.
std::string html_page(const Comparison& comparison, const std::vector<Fit>& fits, const std::string& title);

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// Page: the comparison as one self-contained HTML file.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"
#include "report/fit.h"

namespace dragonn::report {

/// Returns HTML with style, data, drawing code and chart library inside. `title` is plain text; `fits` may be empty.
std::string html_page(const Comparison& comparison, const std::vector<Fit>& fits, const std::string& title);

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// The parts of the report page, embedded into the library at build time (embed.cmake).
#pragma once

#include <string_view>

namespace dragonn::report::assets {

extern const std::string_view kPage;        ///< page/page.html, with {{marks}} for the other parts
extern const std::string_view kStyle;       ///< page/style.css
extern const std::string_view kText;        ///< page/text.js
extern const std::string_view kRuns;        ///< page/runs.js
extern const std::string_view kTables;      ///< page/tables.js
extern const std::string_view kDescribe;    ///< page/describe.js
extern const std::string_view kLines;       ///< page/lines.js
extern const std::string_view kPays;        ///< page/pays.js
extern const std::string_view kEstimation;  ///< page/estimation.js
extern const std::string_view kCharts;      ///< page/charts.js
extern const std::string_view kChartJs;     ///< the chart library, from the distribution

}  // namespace dragonn::report::assets

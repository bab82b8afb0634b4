// SPDX-License-Identifier: MIT
/// The parts of the report page, embedded into the library at build time (embed.cmake).
#pragma once

#include <string_view>

namespace dragonn::report::assets {

extern const std::string_view kPage;     ///< page/page.html, with {{marks}} for the rest
extern const std::string_view kStyle;    ///< page/style.css
extern const std::string_view kCharts;   ///< page/charts.js
extern const std::string_view kChartJs;  ///< the chart library, from the distribution

}  // namespace dragonn::report::assets

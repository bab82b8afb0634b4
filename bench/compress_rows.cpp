// SPDX-License-Identifier: MIT
#include "bench/compress_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/bandwidth.h"

namespace dragonn::bench {
namespace {

double percentile_or_nan(const std::vector<double>& values, double share) {
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : percentile(values, share);
}

nlohmann::ordered_json or_null(std::optional<std::size_t> count) {
  return count ? nlohmann::ordered_json(*count) : nlohmann::ordered_json();
}

double over(std::optional<std::size_t> count, std::size_t divisor) {
  return count ? static_cast<double>(*count) / static_cast<double>(divisor) : std::numeric_limits<double>::quiet_NaN();
}

/// Returns the share of the time of `other` that a row saves, if `rows` has the other.
nlohmann::ordered_json saving(const Rows& rows, const nlohmann::ordered_json& row, const std::string& other) {
  const auto found = std::ranges::find_if(rows, [&](const auto& candidate) {
    return candidate["sparsifier"] == other && candidate["mode"] == row["mode"];
  });
  if (found == rows.end() || (*found)["seconds_median"].is_null() || row["seconds_median"].is_null()) return {};
  return 1 - row["seconds_median"].get<double>() / (*found)["seconds_median"].get<double>();
}

}  // namespace

nlohmann::ordered_json compress_row(nlohmann::ordered_json conditions, bool is_fused, std::size_t k,
                                    const CompressMeasurement& measured) {
  const auto elements = conditions["numel"].get<std::size_t>();
  const auto numel = static_cast<double>(elements);
  const double bytes = numel * (is_fused ? kAddBytes : kReadBytes);
  const double median = percentile_or_nan(measured.seconds, 0.5);
  const double read = percentile_or_nan(measured.read_seconds, 0.5);
  const double add = percentile_or_nan(measured.add_seconds, 0.5);
  const double copy_rate = numel * kCopyBytes / percentile_or_nan(measured.copy_seconds, 0.5);
  conditions.update({{"mode", is_fused ? "fused" : "select"},
                     {"seconds_median", or_null(median)},
                     {"seconds_p10", or_null(percentile_or_nan(measured.seconds, 0.1))},
                     {"seconds_p90", or_null(percentile_or_nan(measured.seconds, 0.9))},
                     {"gigabytes_per_second", or_null(numel * kReadBytes / median * 1e-9)},
                     {"selected", or_null(measured.selected)},
                     {"selected_over_k", or_null(over(measured.selected, k))},
                     {"passes", or_null(over(measured.elements_read, elements))},
                     {"read_gigabytes_per_second", or_null(numel * kReadBytes / read * 1e-9)},
                     {"accumulate_gigabytes_per_second", or_null(numel * kAddBytes / add * 1e-9)},
                     {"of_read", or_null(read / median)},
                     {"of_accumulate", or_null(add / median)},
                     {"bytes", bytes},
                     {"copy_gigabytes_per_second", or_null(copy_rate * 1e-9)},
                     {"of_copy", or_null(bytes / median / copy_rate)}});
  return conditions;
}

void append_savings(Rows& rows) {
  for (nlohmann::ordered_json& row : rows) {
    row["below_dgc"] = saving(rows, row, "dgc");
    row["below_prefix_sums"] = saving(rows, row, "prefix_sums");
  }
}

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
#include "core/units_text.h"

#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace dragonn {

std::string three_digits(double value) {
  const double rounded = std::strtod(fmt::format("{:.3g}", value).c_str(), nullptr);
  return fmt::format("{:.10g}", rounded);
}

std::string in_units(double value, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  // What rounds to 1000 belongs to the next unit.
  while (std::abs(value) >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), units[unit]);
}

std::string bandwidth_text(double gbps) {
  static constexpr std::string_view kUnits[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
  return in_units(gbps * 1e9, kUnits);
}

std::string network_text(std::optional<double> gbps, std::optional<double> latency_us, const std::string& preset) {
  if (!gbps && !latency_us) return preset.empty() ? "not described" : preset;
  std::string text = gbps ? bandwidth_text(*gbps) : "";
  if (latency_us) text += fmt::format("{}{} us latency", text.empty() ? "" : ", ", three_digits(*latency_us));
  return preset.empty() ? text : fmt::format("{} ({})", text, preset);
}

}  // namespace dragonn

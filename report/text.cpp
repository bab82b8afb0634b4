// SPDX-License-Identifier: MIT
#include "report/text.h"

#include <algorithm>

#include <fmt/format.h>

namespace dragonn::report {

std::string escaped(std::string_view text, std::initializer_list<std::pair<char, std::string_view>> escapes) {
  std::string result;
  for (const char letter : text) {
    const auto* const escape = std::ranges::find(escapes, letter, &std::pair<char, std::string_view>::first);
    result += escape == escapes.end() ? std::string_view(&letter, 1) : escape->second;
  }
  return result;
}

std::string markup_escaped(std::string_view text) {
  return escaped(text, {{'<', "&lt;"}, {'&', "&amp;"}, {'"', "&quot;"}});
}

std::string network_text(const Network& network) {
  return dragonn::network_text(network.gbps, network.latency_us, network.preset);
}

std::string compute_text(const Network& network) {
  if (network.compute == "zero") return "compute takes no time";
  return network.compute == "measured" ? "compute time is measured CPU time" : "compute time is not described";
}

std::string clock_text(const Run& run) {
  const auto network = run.network();
  if (!network) return "wall time";
  return fmt::format("virtual time: modelled network {}; {}", network_text(*network), compute_text(*network));
}

std::string clock_text(const Comparison& comparison) {
  return shared_text(
      comparison, [](const Run& run) { return clock_text(run); }, "times of several kinds: the table names each run's");
}

std::string clock_name(const Comparison& comparison) {
  return shared_text(
      comparison, [](const Run& run) { return run.is_virtual() ? "virtual time" : "wall time"; }, "time");
}

std::optional<Network> shared_network(const Comparison& comparison) {
  const auto first = comparison.groups.front().runs.front().network();
  bool is_shared = true;
  for_each_run(comparison, [&](const Run& run) { is_shared = is_shared && run.network() == first; });
  return is_shared ? first : std::nullopt;
}

std::string described_network_name(const Comparison& comparison) {
  const auto network = shared_network(comparison);
  if (!network) return "on each run's network";
  return network->gbps ? "at " + bandwidth_text(*network->gbps) : "on " + network_text(*network);
}

bool has_ideal_times(const Comparison& comparison) {
  bool found = false;
  for_each_run(comparison, [&](const Run& run) {
    for (const EvalPoint& point : run.evals) found = found || point.time_ideal;
  });
  return found;
}

}  // namespace dragonn::report

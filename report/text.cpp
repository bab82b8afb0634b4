// SPDX-License-Identifier: MIT
#include "report/text.h"

#include <set>

namespace dragonn::report {

std::string markup_escaped(std::string_view text) {
  std::string result;
  for (char letter : text) {
    if (letter == '<') {
      result += "&lt;";
    } else if (letter == '&') {
      result += "&amp;";
    } else if (letter == '"') {
      result += "&quot;";
    } else {
      result += letter;
    }
  }
  return result;
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
  std::set<std::string> texts;
  for_each_run(comparison, [&](const Run& run) { texts.insert(clock_text(run)); });
  if (texts.size() == 1) return *texts.begin();
  return "times of several kinds: the table names each run's";
}

std::string clock_name(const Comparison& comparison) {
  std::set<std::string> names;
  for_each_run(comparison, [&](const Run& run) { names.insert(run.is_virtual() ? "virtual time" : "wall time"); });
  return names.size() == 1 ? *names.begin() : "time";
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
    found =
        found || std::ranges::any_of(run.evals, [](const EvalPoint& point) { return point.time_ideal.has_value(); });
  });
  return found;
}

}  // namespace dragonn::report

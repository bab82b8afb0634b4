// SPDX-License-Identifier: MIT
/// Text helpers for pages, figures and the terminal.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/units_text.h"
#include "report/compare.h"
#include "report/run.h"

namespace dragonn::report {

/// Replaces characters by their escapes.
std::string escaped(std::string_view text, std::initializer_list<std::pair<char, std::string_view>> escapes);
/// Escapes plain text for the content of an HTML or SVG element.
std::string markup_escaped(std::string_view text);

/// Returns what text(run) is for all runs, or `otherwise` if it differs.
template <class Text>
std::string shared_text(const Comparison& comparison, Text text, std::string otherwise) {
  std::set<std::string> texts;
  for_each_run(comparison, [&](const Run& run) { texts.insert(text(run)); });
  return texts.size() == 1 ? *texts.begin() : otherwise;
}

/// Returns "100 Mbit/s, 100 us latency", or the preset's name if nothing more is known.
std::string network_text(const Network& network);
/// Returns "compute time is measured CPU time".
std::string compute_text(const Network& network);

/// Returns "virtual time: modelled network 100 Mbit/s, 100 us latency; compute time is measured CPU time" or "wall
/// time".
std::string clock_text(const Run& run);
/// Returns the text of all runs, or that they have several clocks.
std::string clock_text(const Comparison& comparison);

/// Returns "virtual time" or "wall time" if all runs have that clock, else "time".
std::string clock_name(const Comparison& comparison);

/// Returns the network that all runs of a comparison share; nothing if one has wall times or another network.
std::optional<Network> shared_network(const Comparison& comparison);
/// Returns a title's words for the network of all runs, "at 100 Mbit/s", or "on each run's network".
std::string described_network_name(const Comparison& comparison);

/// Returns whether some run logs its time on an ideal network, where messages take no time.
bool has_ideal_times(const Comparison& comparison);

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// Clock: where the times of runs come from, for the reader.
#pragma once

#include <optional>
#include <string>

#include "report/compare.h"

namespace dragonn::report {

/// "virtual time: modelled network 100 Mbit/s, 100 us latency; compute time is measured CPU time", or "wall time".
std::string clock_text(const Run& run);
/// The text of all runs, or that they have several.
std::string clock_text(const Comparison& comparison);

/// "virtual time" or "wall time" where all runs have that clock, else "time".
std::string clock_name(const Comparison& comparison);

/// The network that all runs of a comparison share; none where one has wall times or another network.
std::optional<Network> shared_network(const Comparison& comparison);
/// "at 100 Mbit/s" for titles: the network of all runs, or "on each run's network".
std::string described_network_name(const Comparison& comparison);

/// Whether some run tells its time on an ideal network, which takes no time.
bool has_ideal_times(const Comparison& comparison);

}  // namespace dragonn::report

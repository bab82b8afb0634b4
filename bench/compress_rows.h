// SPDX-License-Identifier: MIT
/// CompressRows: the measurement of a selection as a row, beside the machine's own rates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/rows.h"

namespace dragonn::bench {

/// The seconds of all rounds. An empty list was not measured.
struct CompressMeasurement {
  std::vector<double> seconds;
  std::vector<double> read_seconds, copy_seconds;
  std::vector<double> add_seconds;  ///< of fused selections
  std::optional<std::size_t> selected, elements_read;
};

/// Returns a row, with null for all that was not measured. @param conditions of the measurement, with numel; the row's
/// first keys.
/// @param k entries asked for.
nlohmann::ordered_json compress_row(nlohmann::ordered_json conditions, bool is_fused, std::size_t k,
                                    const CompressMeasurement& measured);

/// Adds to each row of one gradient and density the share of another's time that it saves: `below_dgc` of the method
/// `dgc` in the same mode, `below_prefix_sums` of that baseline. Null without the other.
void append_savings(Rows& rows);

}  // namespace dragonn::bench

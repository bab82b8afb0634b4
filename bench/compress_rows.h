// SPDX-License-Identifier: MIT
/// CompressRows: the measurement of a selection as a row, beside the machine's own rates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/rows.h"

namespace dragonn::bench {

/// The selection that was measured, and its input.
struct CompressSubject {
  std::string name;
  bool is_fused = false;
  std::string device;
  std::size_t numel = 0;
  double density = 0;
  std::size_t k = 0;
  std::string distribution;
  int threads = 1;
};

/// The seconds of all rounds. An empty list was not measured.
struct CompressMeasurement {
  std::vector<double> seconds;
  std::vector<double> read_seconds, copy_seconds;
  std::vector<double> add_seconds;  ///< of fused selections
  std::optional<std::size_t> selected, elements_read;
};

/// Makes the row. Numbers that were not measured are null.
nlohmann::ordered_json compress_row(const CompressSubject& subject, const CompressMeasurement& measured);

/// Adds to each row of one gradient and density the share of another's time that it saves: `below_dgc` of the method
/// `dgc` in the same mode, `below_prefix_sums` of that baseline. Null without the other.
void append_savings(Rows& rows);

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// What `dragonn-bench compress` measured of a selection, as a row beside the machine's own rates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/rows.h"

namespace dragonn::bench {

/// Which selection, of what.
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

/// Seconds of all rounds. Nothing in it: not measured.
struct CompressMeasurement {
  std::vector<double> seconds;
  std::vector<double> read_seconds, copy_seconds;
  std::vector<double> add_seconds;  ///< of fused selections
  std::optional<std::size_t> selected, elements_read;
};

/// What was not measured is null.
nlohmann::ordered_json compress_row(const CompressSubject& subject, const CompressMeasurement& measured);

/// Adds to each row, which are those of one gradient and density, what share of another's time it saves: `below_dgc` of
/// the method `dgc` in the same mode, `below_prefix_sums` of that baseline. Null without the other.
void append_savings(Rows& rows);

}  // namespace dragonn::bench

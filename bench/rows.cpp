// SPDX-License-Identifier: MIT
#include "bench/rows.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::bench {

void write_json(const Rows& rows, const std::string& target) {
  const std::string text = nlohmann::ordered_json(rows).dump(2) + "\n";
  if (target != "-") return write_file_atomically(target, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw SystemError("cannot write to the standard output");
}

double percentile(std::vector<double> values, double share) {
  DRAGONN_CHECK(!values.empty(), "percentile of no values");
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// Fit: distributions fitted to a gradient's magnitudes, as `dragonn-bench fit --json FILE` writes them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dragonn::report {

/// By descending share: the magnitude that this share of the entries reach, and what each fit takes for it.
struct Fit {
  std::string name;  ///< the gradient's file, without its folder
  std::vector<double> share, magnitude, exponential, gamma, pareto;
};

/// One for every input in the file, in its order.
/// @throws ConfigError if the file is missing, DataError naming it if it is not such a file.
std::vector<Fit> load_fits(const std::filesystem::path& file);

}  // namespace dragonn::report

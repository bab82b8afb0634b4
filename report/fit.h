// SPDX-License-Identifier: MIT
/// Fit: distributions fitted to a gradient's magnitudes, as `dragonn-bench fit --json FILE` writes them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dragonn::report {

/// The magnitude that a share of the entries reaches, by descending share, and each fit's estimate of it.
struct Fit {
  std::string name;  ///< the gradient's file, without its folder
  std::vector<double> share, magnitude, exponential, gamma, pareto;
};

/// Reads the fits of all inputs in the file, in its order.
/// @throws ConfigError if the file is missing, DataError naming it if it is not such a file.
std::vector<Fit> load_fits(const std::filesystem::path& file);

}  // namespace dragonn::report

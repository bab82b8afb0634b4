// SPDX-License-Identifier: MIT
#include "report/fit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::report {

std::vector<Fit> load_fits(const std::filesystem::path& file) {
  const std::string text = read_text_file(file);
  std::vector<Fit> fits;
  std::string input;
  try {
    for (const nlohmann::json& row : nlohmann::json::parse(text)) {
      const auto next = row.at("input").get<std::string>();
      const auto share = row.at("share").get<double>();
      // Shares descend: where they rise, one file was given twice.
      if (fits.empty() || next != input || share >= fits.back().share.back())
        fits.push_back({std::filesystem::path(next).filename().string(), {}, {}, {}, {}, {}});
      input = next;
      Fit& fit = fits.back();
      fit.share.push_back(share);
      fit.magnitude.push_back(row.at("magnitude").get<double>());
      fit.exponential.push_back(row.at("exponential").get<double>());
      fit.gamma.push_back(row.at("gamma").get<double>());
      fit.pareto.push_back(row.at("pareto").get<double>());
    }
  } catch (const nlohmann::json::exception&) {
    throw DataError(fmt::format("{}: not a file that `dragonn-bench fit --json` writes", file.string()));
  }
  return fits;
}

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// `dragonn-bench fit`: the distributions that SIDCo fits in its first stage, against the magnitudes of real gradients.
///
/// A row per share q: the magnitude that a share q of the entries reach, and what each fit takes for it. That is the
/// threshold which a method with this fit would use at density q. Source: SIDCo (MLSys 2021), Fig. 2.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/benchmark.h"
#include "bench/gradients.h"
#include "compress/sidco/sidco_fit.h"
#include "kernels/gradient/exceedance.h"
#include "kernels/gradient/gradient_pass.h"

namespace dragonn::bench {
namespace {

/// The statistics of the magnitudes that the methods use.
struct Statistics {
  double mean = 0;
  double variance = 0;  ///< n - 1 below
  double mean_log = 0;
};

Statistics statistics(const std::vector<float>& gradient) {
  const View<const float> values(gradient.data(), gradient.size());
  kernels::PassResult pass;
  kernels::examine({.kind = kernels::PassRequest::Kind::kMoments}, values, pass);
  const double n = static_cast<double>(gradient.size());
  const double norm = std::sqrt(pass.moments.sum_squares);
  Statistics result;
  result.mean = pass.moments.sum / n;
  result.variance = std::max(pass.moments.sum_squares - n * result.mean * result.mean, 0.0) / std::max(n - 1, 1.0);
  if (norm > 0) {
    constexpr double kOffset = 2.2e-16;  // as sidco_gp has it: zeros have no logarithm
    result.mean_log = kernels::sum_magnitude_logs(values, 1 / norm, kOffset) / n + std::log(norm);
  }
  return result;
}

/// Returns shares from 0.98 to 0.02 in equal steps, then five to a decade down to 30 entries: fewer would make a rough
/// histogram.
std::vector<double> shares(std::size_t numel) {
  std::vector<double> result;
  for (int i = 49; i >= 1; --i) result.push_back(i / 50.0);
  const double min = 30.0 / static_cast<double>(numel);
  for (int i = 10; std::pow(10.0, -i / 5.0) >= min; ++i) result.push_back(std::pow(10.0, -i / 5.0));
  return result;
}

class FitBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--input", inputs_, "Gradient to fit, a float32 .npy file (repeatable)")
        ->type_name("FILE")
        ->default_str("")
        ->required();
  }

  Rows run(Progress& progress) override {
    Rows rows;
    const auto gradients = read_gradients({inputs_.begin(), inputs_.end()});
    progress.plan(static_cast<double>(gradients.size()));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const std::vector<float>& gradient = gradients[i];
      const Statistics all = statistics(gradient);
      std::vector<float> magnitudes(gradient.size());
      std::ranges::transform(gradient, magnitudes.begin(), [](float value) { return std::abs(value); });
      std::ranges::sort(magnitudes, std::greater<>());
      for (double share : shares(gradient.size())) {
        const double rank = std::ceil(share * static_cast<double>(gradient.size()));
        rows.push_back(
            {{"input", inputs_[i]},
             {"share", share},
             {"magnitude", magnitudes[static_cast<std::size_t>(rank) - 1]},
             {"exponential", compress::exponential_threshold(all.mean, share)},
             {"gamma", compress::gamma_threshold(all.mean, all.mean_log, share, compress::GammaInverse::kExact)},
             {"pareto", compress::pareto_threshold(all.mean, all.variance, share)}});
      }
      progress.advance(1, inputs_[i]);
    }
    return rows;
  }

 private:
  std::vector<std::string> inputs_;
};

const Registration<BenchmarkEntry> registration{
    {{"fit", "Compares SIDCo's fits with the magnitudes of your gradients"},
     [] { return std::make_unique<FitBenchmark>(); },
     {.conditions = {"input"}, .results = {"share", "magnitude", "exponential", "gamma", "pareto"}},
     {"fit --input RUN/gradients/step-00000100-rank-0000.npy --json fit.json",
      "fit --input first.npy --input second.npy"}}};

}  // namespace
}  // namespace dragonn::bench

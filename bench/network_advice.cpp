// SPDX-License-Identifier: MIT
#include "bench/network_advice.h"

#include <fmt/format.h>

#include "bench/training_step.h"
#include "comm/sparse/exchange_cost.h"
#include "compress/sparsifier.h"
#include "layers/graph.h"
#include "trainer/config/assemble.h"

namespace dragonn::bench {
namespace {

/// A dense exchange is called cheap if it takes at most this share of a step.
constexpr double kCheapShare = 0.1;

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} us", seconds * 1e6);
}

/// Returns the parameters of a model on the data that `dragonn-bench step` gives it.
std::size_t parameter_count(const std::string& model) {
  const StepSettings step = default_step(model);
  const auto& entry = Registry<layers::ModelEntry>::instance().at(model);
  const auto graph = entry.make(Settings(entry.settings), {step.sample, step.classes});
  std::size_t count = 0;
  for (const layers::ParameterSpec& parameter : graph->parameters()) count += parameter.shape.size();
  return count;
}

/// Returns the seconds of one exchange, by the collective's own formula with its default settings.
double predicted_seconds(const comm::NetworkModel& network, const std::string& collective, std::size_t numel,
                         const AdvisedRuns& runs) {
  const auto& entry = Registry<comm::SparseCollectiveEntry>::instance().at(collective);
  const auto& topk = Registry<compress::SparsifierEntry>::instance().at("topk");
  const std::size_t k = compress::target_count(runs.density, numel);
  const SelectionTraits traits = trainer::selection_traits({topk.name, Settings(topk.settings)});
  const comm::ExchangeSizes sizes = comm::expected_sizes(entry, traits, numel, k, runs.ranks);
  return entry.predict(Settings(entry.settings), sizes).seconds(network);
}

}  // namespace

std::vector<std::string> network_advice(const comm::NetworkModel& network, const AdvisedRuns& runs) {
  std::vector<std::string> lines{"",
                                 fmt::format("Latency {:.3g} us and bandwidth {:.3g} Gbit/s fit these times.",
                                             network.latency_us(), network.gbps()),
                                 fmt::format("Predicted exchange of a step with {} workers:", runs.ranks)};
  for (const std::string& model : runs.models) {
    const std::size_t numel = parameter_count(model);
    const double dense = predicted_seconds(network, "dense", numel, runs);
    const double sparse = predicted_seconds(network, "allgather", numel, runs);
    lines.push_back(fmt::format("  {} ({:.3g} MB): dense ring allreduce {}, topk at density {} {};", model,
                                static_cast<double>(numel * sizeof(float)) * 1e-6, seconds_text(dense), runs.density,
                                seconds_text(sparse)));
    lines.push_back(
        fmt::format("    dense is fine, at most {:.0f} % of a step, if forward and backward take {} or more",
                    100 * kCheapShare, seconds_text(dense * (1 / kCheapShare - 1))));
  }
  lines.emplace_back("topk also has to select: dragonn-bench compress measures how long that takes.");
  lines.emplace_back("To have dragonn-train decide, and simulate local workers, by these numbers:");
  lines.push_back(
      fmt::format("  --set network.model=alpha-beta --set network.latency_us={:.4g} --set network.gbps={:.4g}",
                  network.latency_us(), network.gbps()));
  return lines;
}

}  // namespace dragonn::bench

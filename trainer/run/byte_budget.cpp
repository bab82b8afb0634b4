// SPDX-License-Identifier: MIT
#include "trainer/run/byte_budget.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "compress/density_schedule.h"
#include "core/units_text.h"
#include "exchange/exchange_plan.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/generation.h"

namespace dragonn::trainer {
namespace {

/// An exchange of all entries is sent without a code.
constexpr double kDensest = 0.99;

CompressionConfig with_first(CompressionConfig compression, double density) {
  Settings& settings = compression.density_schedule.settings;
  std::vector<double> densities = settings.numbers(compress::kRateDensities);
  densities.resize(std::max<std::size_t>(densities.size(), 1));
  densities.front() = density;
  settings.set(compress::kRateDensities, std::move(densities));
  return compression;
}

/// Returns the numbers of exchanges of a run by density; those of the first one under 1.
std::map<double, double> exchanges_by_density(const RunSpec& config, std::uint64_t steps_per_epoch) {
  const std::uint64_t scheduled = static_cast<std::uint64_t>(config.train.epochs) * steps_per_epoch;
  const auto limit = static_cast<std::uint64_t>(config.train.max_steps);
  const auto schedule = config.schedule.entry().make(config.schedule.settings,
                                                     {config.optimizer.learning_rate, steps_per_epoch, scheduled});
  const CompressionConfig dense = with_first(config.compression, 1);
  const CompressionConfig sparse = with_first(config.compression, config.compression.density);
  std::map<double, double> exchanges;
  const std::uint64_t period = config.update.steps_per_exchange();
  for (std::uint64_t step = 0; step < (limit > 0 ? std::min(limit, scheduled) : scheduled); step += period) {
    const double share = schedule->decay(step);
    const double density = density_at(sparse, 0, 0, 0, share);
    const bool is_first = density_at(dense, 0, 0, 0, share) != density;
    exchanges[is_first ? 1 : density] += 1;
  }
  return exchanges;
}

double round_down(double density) {
  const double units = std::pow(10, 2 - std::floor(std::log10(density)));
  return std::floor(density * units) / units;
}

}  // namespace

bool has_byte_budget(const Config& config) {
  const Settings& settings = config.compression.density_schedule.settings;
  return config.compression.selects() && settings.contains(compress::kBytesShare) &&
         settings.number(compress::kBytesShare) > 0;
}

std::optional<ByteBudget> byte_budget(const RunSpec& config, const layers::Network& network, const data::Dataset& train,
                                      const comm::Nodes& nodes) {
  if (!has_byte_budget(config) || nodes.ranks() == 1) return std::nullopt;
  const CompressionConfig& compression = config.compression;
  const double share = compression.density_schedule.settings.number(compress::kBytesShare);
  require(
      !std::isinf(compression.sparsifier.entry().band.high),
      "compression.rate.bytes_share = {}: \"{}\" selects what it selects, whatever the density; expected 0, or another "
      "method",
      share, compression.method);
  const exchange::ExchangeRules rules = rules_on(config, nodes);
  const ParameterArena& arena = network.arena();
  const auto bytes_at = [&](double density) {
    return exchange::plan_exchange(rules, arena, density, nodes.ranks()).cost().bytes_sent;
  };
  const std::uint64_t steps_per_epoch = train.training(batch_rules(config, 0, nodes.ranks()))->steps_per_epoch();
  double exchanges = 0, first = 0, others = 0;  // bytes of the others
  for (const auto& [density, count] : exchanges_by_density(config, steps_per_epoch)) {
    exchanges += count;
    if (density == 1)
      first = count;
    else
      others += count * bytes_at(density);
  }
  ByteBudget budget{.dense_bytes = exchange::predict_dense_step(config.rules, arena, nodes.ranks()).bytes_sent};
  const auto mean_at = [&](double density) { return (first * bytes_at(density) + others) / exchanges; };
  const double wanted = share * budget.dense_bytes;
  double low = compression.density, high = kDensest;
  require(
      mean_at(low) <= wanted,
      "compression.rate.bytes_share = {}: a run that begins at compression.density sends {:.3g} of the bytes of dense "
      "training; expected more than that, a lower compression.density or lower compression.rate.densities",
      share, mean_at(low) / budget.dense_bytes);
  if (low < high && mean_at(high) > wanted) {
    constexpr int kHalvings = 20;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(low * high);
      (mean_at(middle) > wanted ? high : low) = middle;
    }
    low = std::max(compression.density, round_down(low));
  } else {
    low = std::max(low, high);
  }
  budget.first_density = low;
  budget.bytes = mean_at(low);
  return budget;
}

std::string describe(const ByteBudget& budget, const Config& config) {
  const auto period = static_cast<double>(config.update.steps_per_exchange());
  return fmt::format(
      "compression.rate.bytes_share = {}: density {} while the learning rate is high, {} sent per worker and step over "
      "the whole run (dense: {})",
      config.compression.density_schedule.settings.number(compress::kBytesShare), budget.first_density,
      bytes_text(budget.bytes / period), bytes_text(budget.dense_bytes / period));
}

void apply(const ByteBudget& budget, RunSpec& config) {
  config.compression = with_first(std::move(config.compression), budget.first_density);
}

}  // namespace dragonn::trainer

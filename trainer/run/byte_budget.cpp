// SPDX-License-Identifier: MIT
#include "trainer/run/byte_budget.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "compress/density_schedule.h"
#include "core/units_text.h"
#include "exchange/exchange_plan.h"
#include "trainer/config/exchange_config.h"

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

/// Calls `visit` for each exchange of a run with the share of the base rate that the decay has left there.
template <class Visit>
void for_each_exchange(const RunSpec& config, std::uint64_t steps_per_epoch, const Visit& visit) {
  const std::uint64_t scheduled = static_cast<std::uint64_t>(config.train.epochs) * steps_per_epoch;
  const auto limit = static_cast<std::uint64_t>(config.train.max_steps);
  const auto schedule = config.schedule.entry().make(config.schedule.settings,
                                                     {config.optimizer.learning_rate, steps_per_epoch, scheduled});
  const std::uint64_t period = config.update.steps_per_exchange();
  for (std::uint64_t step = 0; step < (limit > 0 ? std::min(limit, scheduled) : scheduled); step += period)
    visit(schedule->decay(step));
}

/// The numbers of exchanges of a run.
struct Exchanges {
  double first = 0;                   // at the density that is to be found
  std::map<double, double> at_other;  // by density
};

Exchanges count_exchanges(const RunSpec& config, std::uint64_t steps_per_epoch) {
  const CompressionConfig dense = with_first(config.compression, 1);
  const CompressionConfig sparse = with_first(config.compression, config.compression.density);
  Exchanges exchanges;
  for_each_exchange(config, steps_per_epoch, [&](double share) {
    const double density = density_at(sparse, 0, 0, 0, share);
    const bool is_first = density_at(dense, 0, 0, 0, share) != density;
    ++(is_first ? exchanges.first : exchanges.at_other[density]);
  });
  return exchanges;
}

double round_down(double density) {
  const double units = std::pow(10, 2 - std::floor(std::log10(density)));
  return std::floor(density * units) / units;
}

}  // namespace

std::optional<ByteBudget> byte_budget(const RunSpec& config, const layers::Network& network,
                                      std::uint64_t steps_per_epoch, const comm::Nodes& nodes) {
  const double share = bytes_share(config.compression);
  if (share == 0 || nodes.ranks() == 1) return std::nullopt;
  const exchange::ExchangeRules rules = rules_on(config, nodes);
  const ParameterArena& arena = network.arena();
  const auto bytes_at = [&](double density) {
    return exchange::plan_exchange(rules, arena, density, nodes.ranks()).cost().bytes_sent;
  };
  const Exchanges exchanges = count_exchanges(config, steps_per_epoch);
  double all = exchanges.first, other_bytes = 0;
  for (const auto& [density, count] : exchanges.at_other) {
    all += count;
    other_bytes += count * bytes_at(density);
  }
  const auto mean_at = [&](double density) { return (exchanges.first * bytes_at(density) + other_bytes) / all; };
  const double dense_bytes = exchange::predict_dense_step(config.rules, arena, nodes.ranks()).bytes_sent;
  const double wanted = share * dense_bytes, target = config.compression.density;
  double low = target, high = std::max(target, kDensest);
  if (mean_at(high) <= wanted) {
    low = high;
  } else if (mean_at(low) <= wanted) {
    constexpr int kHalvings = 20;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(low * high);
      (mean_at(middle) > wanted ? high : low) = middle;
    }
    low = std::max(target, round_down(low));
  }
  return ByteBudget{.first_density = low, .bytes = mean_at(low), .dense_bytes = dense_bytes};
}

void check(const ByteBudget& budget, const Config& config) {
  const double share = bytes_share(config.compression);
  require(
      budget.bytes <= share * budget.dense_bytes,
      "compression.rate.bytes_share = {}: a run that begins at compression.density sends {:.3g} of the bytes of dense "
      "training; expected more than that, a lower compression.density or lower compression.rate.densities",
      share, budget.bytes / budget.dense_bytes);
}

std::string describe(const ByteBudget& budget, const Config& config) {
  const auto period = static_cast<double>(config.update.steps_per_exchange());
  return fmt::format(
      "compression.rate.bytes_share = {}: density {} while the learning rate is high, {} sent per worker and step over "
      "the whole run (dense: {})",
      bytes_share(config.compression), budget.first_density, bytes_text(budget.bytes / period),
      bytes_text(budget.dense_bytes / period));
}

void apply(const ByteBudget& budget, RunSpec& config) {
  config.compression = with_first(std::move(config.compression), budget.first_density);
}

std::vector<DensityShare> density_shares(const RunSpec& config, std::uint64_t steps_per_epoch) {
  const CompressionConfig& compression = config.compression;
  if (!is_by_rate(compression)) return {{compression.density, 1}};
  std::map<double, double, std::greater<>> exchanges;
  for_each_exchange(config, steps_per_epoch,
                    [&](double share) { ++exchanges[density_at(compression, 0, 0, 0, share)]; });
  double all = 0;
  for (const auto& [density, count] : exchanges) all += count;
  std::vector<DensityShare> shares;
  for (const auto& [density, count] : exchanges) shares.push_back({density, count / all});
  return shares;
}

}  // namespace dragonn::trainer

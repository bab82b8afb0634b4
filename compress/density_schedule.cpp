// SPDX-License-Identifier: MIT
#include "compress/density_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "compress/sparsifier.h"

namespace dragonn::compress {
namespace {

void check_density(double density) {
  if (density > 0.0 && density <= 1.0) return;
  throw ConfigError(fmt::format("density = {}: expected a number in (0, 1]", density));
}

SettingSpec warmup_epochs(std::int64_t epochs) {
  return SettingSpec::integer("warmup_epochs", epochs, "epochs before the density reaches the target", 0);
}

/// Returns the list's density of this epoch, and the target after its end.
double from_list(std::span<const double> densities, const DensityPoint& point) {
  return point.epoch < densities.size() ? densities[point.epoch] : point.density;
}

const Registration<DensityScheduleEntry> constant{
    {{"constant", "the target density from the first step on"},
     [](const Settings&, const DensityPoint& point) { return point.density; }}};

const Registration<DensityScheduleEntry> dgc{
    {{"dgc", "0.25, 0.0625, 0.015625, ... by epoch, down to the target", "arXiv:1712.01887 (DGC), section 3.3"},
     [](const Settings&, const DensityPoint& point) { return std::pow(0.25, static_cast<double>(point.epoch + 1)); }}};

const Registration<DensityScheduleEntry> dgc_code{
    {{"dgc_code",
      "falls by an equal factor per epoch, from 1 to the target after warmup_epochs",
      "synxlin/deep-gradient-compression, compression.py",
      {warmup_epochs(5)}},
     [](const Settings& settings, const DensityPoint& point) {
       const std::int64_t epochs = settings.integer("warmup_epochs");
       if (static_cast<std::int64_t>(point.epoch) >= epochs) return point.density;
       return std::pow(point.density, static_cast<double>(point.epoch + 1) / static_cast<double>(epochs + 1));
     }}};

const Registration<DensityScheduleEntry> gtopk{
    {{"gtopk", "0.25, 0.0725, 0.015, 0.004 by epoch, then the target", "arXiv:1901.04359 (gTop-k), section IV-B"},
     [](const Settings&, const DensityPoint& point) {
       constexpr std::array kDensities{0.25, 0.0725, 0.015, 0.004};
       return from_list(kDensities, point);
     }}};

const Registration<DensityScheduleEntry> oktopk_dense{
    {{"oktopk_dense",
      "density 1 for the first dense_steps steps, then the target",
      "Shigangli/Ok-Topk: 512 steps for VGG, 128 for LSTM, 0 for BERT",
      {SettingSpec::integer("dense_steps", 512, "number of first steps whose gradients are sent dense", 0)}},
     [](const Settings& settings, const DensityPoint& point) {
       return point.step < static_cast<std::uint64_t>(settings.integer("dense_steps")) ? 1.0 : point.density;
     }}};

const Registration<DensityScheduleEntry> dense_ends{[] {
  DensityScheduleEntry entry;
  entry.name = "dense_ends";
  entry.summary = "another density for the first and the last share of the run's steps, and the target between them";
  entry.settings = {
      SettingSpec::number("first_share", 0.1, "share of the steps that begin the run", 0, 1),
      SettingSpec::number("last_share", 0.1,
                          "share of the steps that end the run, in which what the residuals hold is sent", 0, 1),
      SettingSpec::number("density", 1, "the density of those steps", 0, 1).above_minimum()};
  entry.needs_length = true;
  entry.at = [](const Settings& settings, const DensityPoint& point) {
    const auto steps = static_cast<double>(point.steps), before = static_cast<double>(point.step);
    const double first = settings.number("first_share") * steps, last = (1 - settings.number("last_share")) * steps;
    const bool is_end = point.steps > 0 && (before < first || before >= last);
    return is_end ? settings.number("density") : point.density;
  };
  return entry;
}()};

const Registration<DensityScheduleEntry> exponential{
    {{"exponential",
      "falls by an equal factor per epoch, from initial_density to the target",
      "",
      {SettingSpec::number("initial_density", 0.25, "density of the first epoch", 0, 1).above_minimum(),
       warmup_epochs(4)}},
     [](const Settings& settings, const DensityPoint& point) {
       const std::int64_t epochs = settings.integer("warmup_epochs");
       if (static_cast<std::int64_t>(point.epoch) >= epochs) return point.density;
       const double initial = settings.number("initial_density");
       return initial *
              std::pow(point.density / initial, static_cast<double>(point.epoch) / static_cast<double>(epochs));
     }}};

const Registration<DensityScheduleEntry> list{
    {{"list",
      "one density per epoch, then the target",
      "",
      {SettingSpec{"densities", std::vector<double>{}, "densities of epochs 0, 1, ...", 0, 1}.above_minimum()}},
     [](const Settings& settings, const DensityPoint& point) {
       return from_list(settings.numbers("densities"), point);
     }}};

const Registration<DensityScheduleEntry> rate{[] {
  DensityScheduleEntry entry;
  entry.name = "rate";
  entry.summary = "falls with the learning rate, to the next density each time that the rate has fallen by a factor";
  entry.settings = {
      SettingSpec{kRateDensities, std::vector<double>{0.8, 0.02},
                  "densities before the target, the first at the full rate", 0, 1}
          .above_minimum(),
      SettingSpec::number(
          kBytesShare, 0,
          "the bytes of the whole run, as a share of those of dense training, which the first density is "
          "found for; 0: it is the one that is set",
          0, 1),
      SettingSpec::number("fall", 0.3,
                          "the factor: 0.3 takes the second density below 0.3 of the base rate, the third below "
                          "0.09",
                          0, 1)
          .above_minimum()};
  entry.by_rate = true;
  entry.at = [](const Settings& settings, const DensityPoint& point) {
    double bound = 1;
    for (const double density : settings.numbers(kRateDensities)) {
      bound *= settings.number("fall");
      if (point.rate_share >= bound) return density;
    }
    return point.density;
  };
  return entry;
}()};

}  // namespace

double density_at(const std::string& name, const Settings& settings, const DensityPoint& point) {
  check_density(point.density);
  const DensityScheduleEntry& entry = Registry<DensityScheduleEntry>::instance().at(name);
  return std::clamp(entry.at(settings, point), point.density, 1.0);
}

std::size_t target_count(double density, std::size_t numel) {
  check_density(density);
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::floor(density * static_cast<double>(numel))));
}

}  // namespace dragonn::compress

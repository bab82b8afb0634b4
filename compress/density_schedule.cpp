// SPDX-License-Identifier: MIT
#include "compress/density_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace dragonn::compress {

double density_at(const std::string& name, const Settings& settings, const DensityPoint& point) {
  if (!(point.density > 0.0 && point.density <= 1.0)) {
    throw ConfigError(fmt::format("density = {}: expected a number in (0, 1]", point.density));
  }
  const DensityScheduleEntry& entry = Registry<DensityScheduleEntry>::instance().at(name);
  return std::clamp(entry.at(settings, point), point.density, 1.0);
}

namespace {

SettingSpec warmup_epochs(std::int64_t epochs) {
  return {.name = "warmup_epochs",
          .default_value = epochs,
          .help = "epochs before the density reaches the target",
          .minimum = 0};
}

/// Returns the list's density of this epoch, and the target after its end.
double from_list(std::span<const double> densities, const DensityPoint& point) {
  return point.epoch < densities.size() ? densities[point.epoch] : point.density;
}

DensityScheduleEntry describe(std::string name, std::string summary, std::string source, SettingSpecs settings = {}) {
  DensityScheduleEntry entry;
  entry.name = std::move(name);
  entry.summary = std::move(summary);
  entry.source = std::move(source);
  entry.settings = std::move(settings);
  return entry;
}

const Registration<DensityScheduleEntry> constant{[] {
  DensityScheduleEntry entry = describe("constant", "the target density from the first step on", "");
  entry.at = [](const Settings&, const DensityPoint& point) { return point.density; };
  return entry;
}()};

const Registration<DensityScheduleEntry> dgc{[] {
  DensityScheduleEntry entry = describe("dgc", "0.25, 0.0625, 0.015625, ... by epoch, down to the target",
                                        "arXiv:1712.01887 (DGC), section 3.3");
  entry.at = [](const Settings&, const DensityPoint& point) {
    return std::pow(0.25, static_cast<double>(point.epoch + 1));
  };
  return entry;
}()};

const Registration<DensityScheduleEntry> dgc_code{[] {
  DensityScheduleEntry entry =
      describe("dgc_code", "falls by an equal factor per epoch, from 1 to the target after warmup_epochs",
               "synxlin/deep-gradient-compression, compression.py", {warmup_epochs(5)});
  entry.at = [](const Settings& settings, const DensityPoint& point) {
    const std::int64_t epochs = settings.integer("warmup_epochs");
    if (static_cast<std::int64_t>(point.epoch) >= epochs) return point.density;
    return std::pow(point.density, static_cast<double>(point.epoch + 1) / static_cast<double>(epochs + 1));
  };
  return entry;
}()};

const Registration<DensityScheduleEntry> gtopk{[] {
  DensityScheduleEntry entry = describe("gtopk", "0.25, 0.0725, 0.015, 0.004 by epoch, then the target",
                                        "arXiv:1901.04359 (gTop-k), section IV-B");
  entry.at = [](const Settings&, const DensityPoint& point) {
    constexpr std::array kDensities{0.25, 0.0725, 0.015, 0.004};
    return from_list(kDensities, point);
  };
  return entry;
}()};

const Registration<DensityScheduleEntry> oktopk_dense{[] {
  DensityScheduleEntry entry = describe("oktopk_dense", "density 1 for the first dense_steps steps, then the target",
                                        "Shigangli/Ok-Topk: 512 steps for VGG, 128 for LSTM, 0 for BERT",
                                        {{.name = "dense_steps",
                                          .default_value = std::int64_t{512},
                                          .help = "number of first steps whose gradients are sent dense",
                                          .minimum = 0}});
  entry.at = [](const Settings& settings, const DensityPoint& point) {
    return point.step < static_cast<std::uint64_t>(settings.integer("dense_steps")) ? 1.0 : point.density;
  };
  return entry;
}()};

const Registration<DensityScheduleEntry> exponential{[] {
  DensityScheduleEntry entry =
      describe("exponential", "falls by an equal factor per epoch, from initial_density to the target", "",
               {{.name = "initial_density",
                 .default_value = 0.25,
                 .help = "density of the first epoch",
                 .minimum = 0,
                 .maximum = 1,
                 .exclusive_minimum = true},
                warmup_epochs(4)});
  entry.at = [](const Settings& settings, const DensityPoint& point) {
    const std::int64_t epochs = settings.integer("warmup_epochs");
    if (static_cast<std::int64_t>(point.epoch) >= epochs) return point.density;
    const double initial = settings.number("initial_density");
    return initial * std::pow(point.density / initial, static_cast<double>(point.epoch) / static_cast<double>(epochs));
  };
  return entry;
}()};

const Registration<DensityScheduleEntry> list{[] {
  DensityScheduleEntry entry = describe("list", "one density per epoch, then the target", "",
                                        {{.name = "densities",
                                          .default_value = std::vector<double>{},
                                          .help = "densities of epochs 0, 1, ...",
                                          .minimum = 0,
                                          .maximum = 1,
                                          .exclusive_minimum = true}});
  entry.at = [](const Settings& settings, const DensityPoint& point) {
    return from_list(settings.numbers("densities"), point);
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::compress

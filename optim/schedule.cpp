// SPDX-License-Identifier: MIT
/// The learning-rate schedules, each after a linear warm-up.
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::optim {
namespace {

/// The position of a step in the run.
struct Place {
  double epoch = 0;     ///< from the start of the run
  double after = 0;     ///< epochs from the end of the warm-up, at least 0
  double progress = 0;  ///< from 0 (end of the warm-up) to 1 (end of the run, or decay_steps)
};

constexpr const char* kDecaySteps = "decay_steps";  // setting of decays that run over a length

/// Returns the factor of one step, without the warm-up's.
using Decay = std::function<double(const Place&)>;

/// A schedule with rate = base * warm-up * decay. The warm-up grows linearly from its start factor at step 0 to 1.
class WarmedUp : public Schedule {
 public:
  WarmedUp(const Settings& settings, const ScheduleContext& context, Decay decay)
      : context_(context),
        warmup_steps_(settings.number("warmup_epochs") * static_cast<double>(context.steps_per_epoch)),
        start_factor_(settings.number("warmup_start_factor")),
        decay_(std::move(decay)) {
    DRAGONN_CHECK(context.steps_per_epoch > 0, "a schedule over epochs of 0 steps");
    const std::int64_t warmup = settings.integer("warmup_steps");
    if (warmup > 0 && warmup_steps_ > 0)
      throw ConfigError(fmt::format(
          "schedule.warmup_steps = {} and schedule.warmup_epochs = {}: expected one of them, and 0 for the other",
          warmup, settings.number("warmup_epochs")));
    if (warmup > 0) warmup_steps_ = static_cast<double>(warmup);
    if (settings.contains(kDecaySteps) && settings.integer(kDecaySteps) > 0)
      context_.total_steps = static_cast<std::uint64_t>(settings.integer(kDecaySteps));
  }

  double learning_rate(std::uint64_t step) const override {
    const auto position = static_cast<double>(step);
    const double warmup =
        position >= warmup_steps_ ? 1.0 : start_factor_ + (1.0 - start_factor_) * position / warmup_steps_;
    return context_.base_learning_rate * warmup * decay(step);
  }

  double decay(std::uint64_t step) const override {
    const auto position = static_cast<double>(step);
    const double epoch = position / static_cast<double>(context_.steps_per_epoch);
    const double rest = static_cast<double>(context_.total_steps) - warmup_steps_;
    const double gone = position - warmup_steps_;
    const double progress = gone <= 0 ? 0.0 : rest > gone ? gone / rest : 1.0;
    const double after = std::max(gone, 0.0) / static_cast<double>(context_.steps_per_epoch);
    return decay_({epoch, after, progress});
  }

 private:
  ScheduleContext context_;
  double warmup_steps_, start_factor_;
  Decay decay_;
};

Decay constant(const Settings& /*settings*/) {
  return [](const Place&) { return 1.0; };
}

/// Multiplies the rate by gamma when `patience` evaluations in a row were not better than the best one before.
class Plateau final : public WarmedUp {
 public:
  Plateau(const Settings& settings, const ScheduleContext& context)
      : WarmedUp(settings, context, constant(settings)),
        gamma_(settings.number("gamma")),
        patience_(static_cast<std::uint64_t>(settings.integer("patience"))),
        threshold_(settings.number("threshold")) {}

  double decay(std::uint64_t /*step*/) const override { return factor_; }

  void observe(double loss) override {
    if (loss < best_ * (1 - threshold_)) {
      best_ = loss;
      failures_ = 0;
    } else if (++failures_ == patience_) {
      factor_ *= gamma_;
      failures_ = 0;
    }
  }

  void save(Archive& archive, const std::string& prefix) const override {
    archive.put(prefix + "factor", factor_);
    archive.put(prefix + "best", best_);
    archive.put(prefix + "failures", failures_);
  }
  void load(const Archive& archive, const std::string& prefix) override {
    factor_ = archive.get<double>(prefix + "factor");
    best_ = archive.get<double>(prefix + "best");
    failures_ = archive.get<std::uint64_t>(prefix + "failures");
  }

 private:
  double gamma_;
  std::uint64_t patience_;
  double threshold_;
  double factor_ = 1;
  double best_ = std::numeric_limits<double>::infinity();
  std::uint64_t failures_ = 0;  // in a row
};

SettingSpecs with_warmup(SettingSpecs settings) {
  settings.push_back({"warmup_epochs", 0.0, "length of the linear warm-up in epochs; 0: none", 0.0});
  settings.push_back({"warmup_steps", std::int64_t{0}, "length of the linear warm-up in steps; 0: warmup_epochs", 0.0});
  settings.push_back(
      {"warmup_start_factor", 0.1, "first rate of the warm-up, as a fraction of the full rate", 0.0, 1.0});
  return settings;
}

ScheduleEntry entry(const std::string& name, const std::string& summary, const std::string& source,
                    SettingSpecs settings, Decay (*decay)(const Settings&)) {
  return {{name, summary, source, with_warmup(std::move(settings))},
          [decay](const Settings& values, const ScheduleContext& context) -> std::unique_ptr<Schedule> {
            return std::make_unique<WarmedUp>(values, context, decay(values));
          }};
}

SettingSpecs decay_to_the_end() {
  return {{"final_factor", 0.0, "final rate of the run, as a fraction of the full rate", 0.0, 1.0},
          {kDecaySteps, std::int64_t{0},
           "step from which on the rate is the final one, the warm-up included; 0: the end of train.epochs", 0.0}};
}

const Registration<ScheduleEntry> constant_entry{
    entry("constant", "constant rate after the warm-up", "", {}, constant)};
const Registration<ScheduleEntry> milestones_entry{
    entry("milestones", "the rate is multiplied by gamma at each milestone", "He et al., arXiv:1512.03385, section 4.2",
          {{"milestones", std::vector<std::int64_t>{15, 25}, "epochs, counted from the start of the run", 0.0},
           {"gamma", 0.1, "factor at each milestone", 0.0}},
          [](const Settings& settings) -> Decay {
            return [epochs = settings.integers("milestones"), gamma = settings.number("gamma")](const Place& place) {
              const auto passed = std::ranges::count_if(
                  epochs, [&](std::int64_t milestone) { return place.epoch >= static_cast<double>(milestone); });
              return std::pow(gamma, static_cast<double>(passed));
            };
          })};
const Registration<ScheduleEntry> exponential_entry{entry(
    "exponential", "the rate is multiplied by gamma after every epoch, from the end of the warm-up on (annealing)",
    "Amodei et al., arXiv:1512.02595, section 3", {{"gamma", 0.99, "factor after each epoch", 0.0, 1.0}},
    [](const Settings& settings) -> Decay {
      return
          [gamma = settings.number("gamma")](const Place& place) { return std::pow(gamma, std::floor(place.after)); };
    })};
const Registration<ScheduleEntry> plateau_entry{
    {{"plateau", "the rate is multiplied by gamma when the evaluation loss stops falling", "",
      with_warmup(
          {{"gamma", 0.25, "factor on a plateau", 0.0, 1.0},
           {"patience", std::int64_t{1}, "consecutive evaluations without a better loss that make a plateau", 1.0},
           {"threshold", 0.0, "relative decrease from the best loss from which a loss counts as better", 0.0, 1.0}})},
     [](const Settings& values, const ScheduleContext& context) -> std::unique_ptr<Schedule> {
       return std::make_unique<Plateau>(values, context);
     }}};
const Registration<ScheduleEntry> cosine_entry{
    entry("cosine", "the rate falls as half a cosine after the warm-up", "arXiv:1608.03983, equation 5",
          decay_to_the_end(), [](const Settings& settings) -> Decay {
            return [last = settings.number("final_factor")](const Place& place) {
              return last + (1.0 - last) * 0.5 * (1.0 + std::cos(std::numbers::pi * place.progress));
            };
          })};
const Registration<ScheduleEntry> linear_entry{entry(
    "linear", "the rate falls linearly after the warm-up", "Devlin et al., arXiv:1810.04805, appendix A.2",
    decay_to_the_end(), [](const Settings& settings) -> Decay {
      return
          [last = settings.number("final_factor")](const Place& place) { return 1.0 - (1.0 - last) * place.progress; };
    })};

}  // namespace
}  // namespace dragonn::optim

// SPDX-License-Identifier: MIT
/// The schedules `constant`, `milestones`, `cosine` and `linear`, each with a linear warm-up in front.
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace dragonn::optim {
namespace {

/// The factor of one step, by the way gone after the warm-up: `epoch` from the start of the run, `progress` from 0 (end
/// of the warm-up) to 1 (end of the run).
using Decay = std::function<double(double epoch, double progress)>;

/// rate = base * warm-up * decay. Warm-up: from its start factor at step 0 linearly to 1 at its end.
class WarmedUp final : public Schedule {
 public:
  WarmedUp(const Settings& settings, const ScheduleContext& context, Decay decay)
      : context_(context),
        warmup_steps_(settings.number("warmup_epochs") * static_cast<double>(context.steps_per_epoch)),
        start_factor_(settings.number("warmup_start_factor")),
        decay_(std::move(decay)) {
    DRAGONN_CHECK(context.steps_per_epoch > 0, "a schedule over epochs of 0 steps");
  }

  double learning_rate(std::uint64_t step) const override {
    const auto position = static_cast<double>(step);
    const double epoch = position / static_cast<double>(context_.steps_per_epoch);
    const double rest = static_cast<double>(context_.total_steps) - warmup_steps_;
    const double gone = position - warmup_steps_;
    const double progress = gone <= 0 ? 0.0 : rest > gone ? gone / rest : 1.0;
    return context_.base_learning_rate * warmup(position) * decay_(epoch, progress);
  }

 private:
  double warmup(double position) const {
    if (position >= warmup_steps_) return 1.0;
    return start_factor_ + (1.0 - start_factor_) * position / warmup_steps_;
  }

  ScheduleContext context_;
  double warmup_steps_;
  double start_factor_;
  Decay decay_;
};

Decay constant(const Settings& /*settings*/) {
  return [](double, double) { return 1.0; };
}

Decay milestones(const Settings& settings) {
  return [epochs = settings.integers("milestones"), gamma = settings.number("gamma")](double epoch, double) {
    const auto passed =
        std::ranges::count_if(epochs, [&](std::int64_t milestone) { return epoch >= static_cast<double>(milestone); });
    return std::pow(gamma, static_cast<double>(passed));
  };
}

Decay cosine(const Settings& settings) {
  return [last = settings.number("final_factor")](double, double progress) {
    return last + (1.0 - last) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  };
}

Decay linear(const Settings& settings) {
  return [last = settings.number("final_factor")](double, double progress) { return 1.0 - (1.0 - last) * progress; };
}

ScheduleEntry entry(const std::string& name, const std::string& summary, const std::string& source,
                    SettingSpecs settings, Decay (*decay)(const Settings&)) {
  settings.push_back({"warmup_epochs", 0.0, "length of the linear warm-up, in epochs; 0: none", 0.0});
  settings.push_back({"warmup_start_factor", 0.1, "the warm-up's first rate, as a part of the full rate", 0.0, 1.0});
  return {{name, summary, source, std::move(settings)},
          [decay](const Settings& values, const ScheduleContext& context) -> std::unique_ptr<Schedule> {
            return std::make_unique<WarmedUp>(values, context, decay(values));
          }};
}

SettingSpec final_factor() {
  return {"final_factor", 0.0, "the rate at the end of the run, as a part of the full rate", 0.0, 1.0};
}

const Registration<ScheduleEntry> constant_entry{
    entry("constant", "the same rate all the time, after a warm-up", "", {}, constant)};
const Registration<ScheduleEntry> milestones_entry{
    entry("milestones", "multiplied by gamma at each of some epochs", "He et al., arXiv:1512.03385, section 4.2",
          {{"milestones", std::vector<std::int64_t>{15, 25}, "epochs, counted from the start of the run", 0.0},
           {"gamma", 0.1, "factor at each milestone", 0.0}},
          milestones)};
const Registration<ScheduleEntry> cosine_entry{entry("cosine", "half a cosine from the full rate down, after a warm-up",
                                                     "arXiv:1608.03983, equation 5", {final_factor()}, cosine)};
const Registration<ScheduleEntry> linear_entry{entry("linear", "straight line from the full rate down, after a warm-up",
                                                     "Devlin et al., arXiv:1810.04805, appendix A.2", {final_factor()},
                                                     linear)};

}  // namespace
}  // namespace dragonn::optim

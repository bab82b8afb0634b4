// SPDX-License-Identifier: MIT
#include <cmath>
#include <memory>
#include <string>

#include <fmt/ranges.h>

#include "core/log.h"
#include "exchange/resize.h"
#include "exchange/run_part.h"
#include "optim/clip.h"
#include "trainer/config/exchange_config.h"
#include "trainer/update/schemes/outer_parameters.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kOuter = "outer/";
constexpr const char* kInner = "parameters";

/// Returns the entry of the outer optimizer.
const optim::OptimizerEntry& outer_entry(const Settings& settings) {
  const auto& optimizers = Registry<optim::OptimizerEntry>::instance();
  const std::string& name = settings.text("outer.optimizer");
  require(optimizers.contains(name), "update.outer.optimizer = \"{}\": expected {}", name,
          fmt::join(optimizers.names(), " | "));
  return optimizers.at(name);
}

/// Returns the outer optimizer. The inner one alone decays weights.
std::unique_ptr<optim::Optimizer> make_outer(const Settings& settings, ParameterArena& arena) {
  const optim::OptimizerEntry& entry = outer_entry(settings);
  Settings own(entry.settings);
  if (own.contains("weight_decay")) own.set("weight_decay", 0.0);
  if (entry.has_momentum) {
    const double momentum = settings.number("outer.momentum");
    own.set("momentum", momentum);
    own.set("nesterov", momentum > 0 && settings.flag("outer.nesterov"));
  }
  return entry.make(own, arena);
}

/// Every rank steps by its own gradient; every few steps the ranks exchange how far they came from their last common
/// parameters, and an outer optimizer takes these on by the mean.
class Local final : public UpdateScheme {
 public:
  Local(const Settings& settings, ParameterArena& arena)
      : inner_steps_(static_cast<std::uint64_t>(settings.integer("inner_steps"))),
        clips_(settings.flag("median_clip")),
        outer_rate_(settings.number("outer.learning_rate")),
        outer_(arena, make_outer(settings, arena)) {}

  StepOutcome step(Generation& generation, const StepValues& values) override {
    if (is_synchronized_) outer_.keep();
    is_synchronized_ = false;
    step_locally(generation, values);
    return communicates(generation.state.progress.step + 1, values.is_last) ? synchronize(generation, values)
                                                                            : StepOutcome{.is_exchanged = false};
  }

  bool communicates(std::uint64_t step, bool is_last) const override { return step % inner_steps_ == 0 || is_last; }
  bool is_synchronized() const override { return is_synchronized_; }
  View<const float> model_parameters() const override {
    return is_synchronized_ ? View<const float>() : outer_.values();
  }

  void save(Archive& rank, const std::string& prefix) const override {
    if (!is_synchronized_) outer_.save_inner(rank, prefix + kInner);
  }
  void load(const Archive& rank, const std::string& prefix) override {
    is_synchronized_ = !rank.contains(prefix + kInner);
    if (!is_synchronized_) outer_.load_inner(rank, prefix + kInner);
  }
  void save_shared(Archive& model, const std::string& prefix) const override { outer_.save(model, prefix + kOuter); }
  void load_shared(const Archive& model, const std::string& prefix) override {
    // A run of another scheme has no outer optimizer, so the first round from there starts one.
    if (exchange::has_fields(model, prefix + kOuter)) outer_.load(model, prefix + kOuter);
  }

 private:
  static void step_locally(Generation& generation, const StepValues& values) {
    generation.compute_gradient();
    generation.finish_gradient();
    const TrainConfig& train = generation.config.train;
    const View<const float> gradient = generation.gradient();
    const std::uint64_t step = generation.state.progress.step;
    if (train.non_finite == NonFinite::kSkip && !std::isfinite(optim::squared_norm(gradient))) {
      log::warning(generation.communicator.rank(), "step {}: this worker's gradient is not finite: it skips the step",
                   step + 1);
      return;
    }
    const float scale = mean_scale(generation, gradient, train.gradient_accumulation);
    optim::Optimizer& optimizer = *generation.state.optimizer;
    exchange::run_part(generation.state.device(), generation.sample.timers, StepPart::kOptimize, [&] {
      optimizer.begin_step(values.learning_rate, step);
      optimizer.update({.size = gradient.size()}, gradient, scale);
    });
  }

  StepOutcome synchronize(Generation& generation, const StepValues& values) {
    const std::uint64_t step = generation.state.progress.step;
    const Device device = generation.state.device();
    StepTimers& timers = generation.sample.timers;
    exchange::GradientExchange& exchange = *generation.gradient_exchange;
    View<const float> change;
    exchange::run_part(device, timers, StepPart::kOptimize, [&] { change = outer_.take_change(); });
    if (clips_)
      exchange::run_part(device, timers, StepPart::kExchange, [&] { outer_.clip_change(generation.communicator); });
    const auto sums =
        exchange.run({.step = step, .density = values.density, .accumulated = values.accumulated}, change, timers);
    const exchange::StepWord word =
        agree_on_step(generation, {.non_finite_bucket = exchange.non_finite_bucket()}, step + 1);
    exchange.commit(timers);
    exchange::run_part(device, timers, StepPart::kOptimize,
                       [&] { outer_.step(sums, outer_rate_, step / inner_steps_); });
    is_synchronized_ = true;
    return {.stop = word.stop};
  }

  std::uint64_t inner_steps_;
  bool clips_;
  double outer_rate_;
  OuterParameters outer_;
  bool is_synchronized_ = true;
};

const Registration<UpdateSchemeEntry> registration{[](UpdateSchemeEntry& entry) {
  entry.name = "local";
  entry.summary =
      "every worker steps by its own optimizer, and every few steps an outer optimizer applies the exchanged mean of "
      "their changes (DiLoCo; with a sparsifier SparseLoCo)";
  entry.source = "Douillard et al., arXiv:2311.08105, algorithm 1; Sarfi et al., arXiv:2508.15706";
  entry.settings = {
      SettingSpec::integer(
          "inner_steps", 30,
          "steps of each worker between exchanges; evaluations and lines of metrics wait for the next exchange", 1),
      SettingSpec::text("outer.optimizer", "sgd",
                        "the optimizer of the parameters that all workers share, without weight decay"),
      SettingSpec::number("outer.learning_rate", 0.7, "its learning rate; no schedule changes it", 0),
      SettingSpec::number("outer.momentum", 0.9, "its momentum, if it has momentum as sgd does; 0: none", 0, 1),
      SettingSpec::flag("outer.nesterov", true, "true: use Nesterov momentum; no effect without momentum"),
      SettingSpec::flag("median_clip", false,
                        "true: scale each tensor of a worker's change down to the median norm of all workers' before "
                        "it is exchanged, against one that diverged"),
      average_spec()};
  entry.resize = {
      OnResize::kReshard,
      "goes on from the common parameters and from those of rank r modulo the former number of workers; what "
      "others have changed since the last exchange is lost"};
  entry.steps_locally = true;
  entry.make = [](const Settings& settings, ParameterArena& arena) { return std::make_unique<Local>(settings, arena); };
  entry.traits = [](const Settings& settings) {
    const std::size_t floats = outer_entry(settings).floats_per_parameter;
    const std::int64_t inner_steps = settings.integer("inner_steps");
    return UpdateTraits{.steps_per_exchange = inner_steps,
                        .floats_per_parameter = 1 + floats,
                        .saved_floats_per_parameter = floats,
                        .own_floats_per_parameter = inner_steps > 1 ? std::size_t{1} : 0,
                        .averages_senders = averages_senders(settings)};
  };
}};

}  // namespace
}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/update/schemes/local_entry.h"

#include <cstdint>
#include <string>

#include <fmt/ranges.h>

#include "trainer/config/exchange_config.h"
#include "trainer/update/sums.h"

namespace dragonn::trainer {
namespace {

/// Returns the entry of the outer optimizer.
const optim::OptimizerEntry& outer_entry(const Settings& settings) {
  const auto& optimizers = Registry<optim::OptimizerEntry>::instance();
  const std::string& name = settings.text("outer.optimizer");
  require(optimizers.contains(name), "update.outer.optimizer = \"{}\": expected {}", name,
          fmt::join(optimizers.names(), " | "));
  return optimizers.at(name);
}

}  // namespace

FragmentSchedule schedule_of(const Settings& settings) {
  const auto number = [&](const char* key) { return static_cast<std::uint64_t>(settings.integer(key)); };
  const FragmentSchedule schedule{number("inner_steps"), number("fragments"), number("overlap_steps")};
  require(
      schedule.round % schedule.fragments == 0,
      "update.fragments = {}: expected a divisor of update.inner_steps = {}, so that one fragment is exchanged every "
      "inner_steps / fragments steps",
      schedule.fragments, schedule.round);
  require(schedule.overlap < schedule.interval(),
          "update.overlap_steps = {}: expected less than inner_steps / fragments = {}, so that at most one fragment is "
          "on its way",
          schedule.overlap, schedule.interval());
  return schedule;
}

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

void describe_local(UpdateSchemeEntry& entry) {
  entry.name = "local";
  entry.summary =
      "every worker steps by its own optimizer, and every few steps an outer optimizer applies the exchanged mean of "
      "their changes (DiLoCo; with a sparsifier SparseLoCo; with fragments Streaming DiLoCo)";
  entry.source = "Douillard et al., arXiv:2311.08105, algorithm 1; Sarfi et al., arXiv:2508.15706; arXiv:2501.18512";
  entry.settings = {
      SettingSpec::integer(
          "inner_steps", 30,
          "steps of each worker between exchanges; evaluations and lines of metrics wait for the next exchange", 1),
      SettingSpec::number("inner_seconds", 0,
                          "seconds of a round by each worker's clock: one that has not made inner_steps by then leaves "
                          "out the rest, and the mean weighs workers by their steps; 0: all make all",
                          0),
      SettingSpec::text("inner_steps_from", "",
                        "metrics.jsonl of a run with inner_seconds: each worker makes as many steps in each round as "
                        "there, and inner_seconds applies to rounds that it lacks"),
      SettingSpec::integer("fragments", 1,
                           "parts of the model that are exchanged one at a time, each once in inner_steps steps; must "
                           "divide inner_steps. Layer i of the model is in part i modulo fragments",
                           1),
      SettingSpec::integer("overlap_steps", 0,
                           "steps that a worker makes while a fragment is exchanged; less than inner_steps / fragments",
                           0),
      SettingSpec::number("mix", 0,
                          "share of a worker's own parameters that stays when a fragment arrives; 0: it takes the "
                          "common ones",
                          0, 1),
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
  entry.traits = [](const Settings& settings) {
    const std::size_t floats = outer_entry(settings).floats_per_parameter;
    const FragmentSchedule schedule = schedule_of(settings);
    const bool is_common_after_steps = schedule.round == 1 && settings.number("mix") == 0;
    const bool skips = settings.number("inner_seconds") > 0 || !settings.text("inner_steps_from").empty();
    constexpr const char* kSkips = "update.inner_seconds and update.inner_steps_from let workers leave out steps";
    require(
        !skips || (schedule.fragments == 1 && schedule.overlap == 0),
        "{}, and update.fragments and update.overlap_steps exchange after fixed numbers of them: expected fragments "
        "= 1 and overlap_steps = 0",
        kSkips);
    require(!skips || !averages_senders(settings),
            "{} and weigh workers by those that they made, and update.average = \"senders\" counts them equally: "
            "expected \"ranks\"",
            kSkips);
    return UpdateTraits{.steps_per_exchange = static_cast<std::int64_t>(schedule.round),
                        .floats_per_parameter = 2 + floats,
                        .saved_floats_per_parameter = floats,
                        .own_floats_per_parameter = is_common_after_steps ? std::size_t{0} : 1,
                        .averages_senders = averages_senders(settings),
                        .fragments = static_cast<std::size_t>(schedule.fragments),
                        .overlap_steps = schedule.overlap,
                        .skips_steps = skips};
  };
}

}  // namespace dragonn::trainer

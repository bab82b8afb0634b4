// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "exchange/buckets.h"
#include "exchange/resize.h"
#include "exchange/run_part.h"
#include "optim/clip.h"
#include "trainer/config/exchange_config.h"
#include "trainer/update/schemes/fragments.h"
#include "trainer/update/schemes/inner_steps.h"
#include "trainer/update/schemes/outer_parameters.h"
#include "trainer/update/schemes/round_length.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kOuter = "outer/";
constexpr const char* kInner = "parameters";
constexpr const char* kArriving = "arriving";
constexpr const char* kRound = "round/";

/// Returns the entry of the outer optimizer.
const optim::OptimizerEntry& outer_entry(const Settings& settings) {
  const auto& optimizers = Registry<optim::OptimizerEntry>::instance();
  const std::string& name = settings.text("outer.optimizer");
  require(optimizers.contains(name), "update.outer.optimizer = \"{}\": expected {}", name,
          fmt::join(optimizers.names(), " | "));
  return optimizers.at(name);
}

/// Returns the turns of the fragments. @throws ConfigError if they do not fit into a round.
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

/// Every rank steps by its own gradient; every few steps the ranks exchange how far they came from their common
/// parameters, and an outer optimizer takes these on by the mean. The model's fragments take turns, and inner steps may
/// go on until a fragment's result arrives; or ranks leave out steps at the end of a round.
class Local final : public UpdateScheme {
 public:
  Local(const Settings& settings, ParameterArena& arena)
      : schedule_(schedule_of(settings)),
        round_(settings),
        mix_(static_cast<float>(settings.number("mix"))),
        clips_(settings.flag("median_clip")),
        outer_rate_(settings.number("outer.learning_rate")),
        outer_(arena, [&](ParameterArena& own) { return make_outer(settings, own); }) {
    const std::vector<std::size_t> fragment_of = exchange::fragments_of(arena, schedule_.fragments);
    parts_.resize(schedule_.fragments);
    for (const ParameterId id : arena.layout()) {
      parts_[fragment_of[id]].tensors.push_back(id);
      whole_.tensors.push_back(id);
    }
  }

  StepOutcome step(Generation& generation, const StepValues& values) override {
    if (whole_.groups.empty()) find_groups(*generation.gradient_exchange);
    if (!has_own_parameters_) outer_.keep();
    has_own_parameters_ = true;
    is_synchronized_ = false;
    const std::uint64_t step = generation.state.progress.step + 1, end = end_of(generation, step);
    const FragmentTurn turn = schedule_.next(step - 1);
    const bool is_last = values.is_last || end == generation.state.total_steps;
    StepOutcome outcome{.is_exchanged = schedule_.begins(step - 1) && !is_last, .skipped = end - step};
    if (outcome.is_exchanged) exchange_beside(generation, values, turn);
    make_step(generation, values);
    if (turn.arrives != end && !is_last) return outcome;
    const bool exchanges_now = is_last || !arriving_;
    if (arriving_) outcome.stop = arrive(generation);
    if (exchanges_now) {
      const Part& part = is_last ? whole_ : parts_[turn.fragment];
      outcome.is_exchanged = true;
      outcome.stop = exchange_now(generation, values, part, end) || outcome.stop;
      give(generation, part, is_last ? 0 : mix_);
    }
    outcome.inner_steps = round_.end();
    is_synchronized_ = true;
    has_own_parameters_ = !is_last && (schedule_.fragments > 1 || mix_ > 0);
    return outcome;
  }

  void begin(const Generation& generation, const std::filesystem::path& earlier) override {
    const TrainingState& state = generation.state;
    round_.begin(state.progress.step, state.total_steps, generation.communicator.size(), earlier);
    // Settings that have changed since a checkpoint may give a fragment on its way another turn: then it arrives now.
    if (!arriving_ || arriving_->turn == schedule_.next(state.progress.step)) return;
    outer_.give(parts_[arriving_->turn.fragment].tensors, mix_);
    arriving_.reset();
  }
  bool communicates(const Generation& generation, std::uint64_t step) const override {
    const std::uint64_t end = end_of(generation, step);
    return end == generation.state.total_steps || schedule_.begins(step - 1) ||
           (schedule_.next(step - 1).arrives == end && !arriving_);
  }
  bool awaits_result() const override { return arriving_.has_value(); }
  bool is_synchronized() const override { return is_synchronized_; }
  View<const float> model_parameters() const override {
    return has_own_parameters_ ? outer_.values() : View<const float>();
  }

  void save(Archive& rank, const std::string& prefix) const override {
    round_.save(rank, prefix + kRound);
    if (has_own_parameters_) outer_.save_inner(rank, prefix + kInner);
    if (arriving_)
      rank.put_array<std::uint64_t>(prefix + kArriving, std::array{arriving_->turn.fragment, arriving_->turn.arrives});
  }
  void load(const Archive& rank, const std::string& prefix) override {
    round_.load(rank, prefix + kRound);
    has_own_parameters_ = rank.contains(prefix + kInner);
    if (has_own_parameters_) outer_.load_inner(rank, prefix + kInner);
    arriving_.reset();
    if (!rank.contains(prefix + kArriving)) return;
    const std::vector<std::uint64_t> arriving = rank.get_vector<std::uint64_t>(prefix + kArriving);
    if (arriving.size() != 2 || arriving[0] >= schedule_.fragments)
      throw DataError("the checkpoint's fragment on its way is none of this run");
    arriving_ = Arriving{.turn = {arriving[0], arriving[1]}};
  }
  void save_shared(Archive& model, const std::string& prefix) const override { outer_.save(model, prefix + kOuter); }
  void load_shared(const Archive& model, const std::string& prefix) override {
    // A run of another scheme has no outer optimizer, so the first round from there starts one.
    if (exchange::has_fields(model, prefix + kOuter)) outer_.load(model, prefix + kOuter);
  }

 private:
  /// Tensors that are exchanged at once.
  struct Part {
    std::vector<ParameterId> tensors;
    std::vector<std::size_t> groups;  ///< of the exchange
  };

  /// An exchange whose result arrives in a later step. The common parameters are moved; this rank's are not.
  struct Arriving {
    FragmentTurn turn;
    bool stop = false;          ///< agreed on in the exchange
    double begin = 0, end = 0;  ///< of the exchange, until that time is divided
    StepTimers timers = {};     ///< of the exchange: they are told with its result
  };

  void find_groups(const exchange::GradientExchange& exchange) {
    for (std::size_t group = 0; group < exchange.groups().size(); ++group) {
      parts_[exchange.buckets()[exchange.groups()[group].begin].fragment].groups.push_back(group);
      whole_.groups.push_back(group);
    }
  }

  /// Returns the step after which the ranks go on from a step of this rank: the round's planned end if it is the last
  /// for which the rank has time.
  std::uint64_t end_of(const Generation& generation, std::uint64_t step) const {
    const std::uint64_t planned = std::min(schedule_.next(step - 1).arrives, generation.state.total_steps);
    const comm::Communicator& communicator = generation.communicator;
    return round_.is_cut(planned, communicator.rank(), communicator.size()) ? planned : step;
  }

  View<const float> take_change(Generation& generation, const Part& part) {
    View<const float> change;
    ParameterDrift& drift = generation.sample.drift;
    exchange::run_part(generation.state.device(), generation.sample.timers, StepPart::kOptimize, [&] {
      change = outer_.take_change(part.tensors);
      drift = {};
      for (const ParameterId id : part.tensors) drift += change_of(generation, change, id);
    });
    return change;
  }

  static ParameterDrift change_of(const Generation& generation, View<const float> change, ParameterId id) {
    const Parameter& tensor = generation.state.network.arena()[id];
    return {optim::squared_norm(change.subview(tensor.offset, tensor.size)), static_cast<double>(tensor.size)};
  }

  /// Exchanges a change and makes the outer step. Returns whether a signal asks to stop. @param arrives steps of the
  /// run that are done when the result does.
  bool send(Generation& generation, const StepValues& values, const Part& part, View<const float> change,
            std::uint64_t done, std::uint64_t arrives) {
    const Device device = generation.state.device();
    StepTimers& timers = generation.sample.timers;
    exchange::GradientExchange& exchange = *generation.gradient_exchange;
    if (clips_) {
      exchange::run_part(device, timers, StepPart::kExchange,
                         [&] { outer_.clip_change(generation.communicator, part.tensors); });
    }
    if (round_.varies()) {
      exchange::run_part(device, timers, StepPart::kExchange, [&] {
        const float weight = round_.weight(generation.communicator);
        if (weight != 1) outer_.scale_change(part.tensors, weight);
      });
    }
    const auto sums = exchange.run(
        {.step = done - 1, .density = values.density, .accumulated = values.accumulated, .groups = part.groups}, change,
        timers);
    const exchange::StepWord word =
        agree_on_step(generation, {.non_finite_bucket = exchange.non_finite_bucket()}, done);
    exchange.commit(timers);
    exchange::run_part(device, timers, StepPart::kOptimize,
                       [&] { outer_.step(sums, outer_rate_, (arrives - 1) / schedule_.round); });
    return word.stop;
  }

  /// Exchanges a change between two inner steps. Returns whether a signal asks to stop.
  bool exchange_now(Generation& generation, const StepValues& values, const Part& part, std::uint64_t done) {
    const View<const float> change = take_change(generation, part);
    const double begin = generation.communicator.now();
    const bool stop = send(generation, values, part, change, done, done);
    if (schedule_.overlap > 0)
      generation.sample.timers.add(StepPart::kExchangeExposed, generation.communicator.now() - begin);
    return stop;
  }

  /// Exchanges a fragment while the computing thread makes the inner steps until its result arrives, or as many of them
  /// as nothing interrupts.
  void exchange_beside(Generation& generation, const StepValues& values, const FragmentTurn& turn) {
    const Part& part = parts_[turn.fragment];
    const std::uint64_t done = generation.state.progress.step;
    const View<const float> change = take_change(generation, part);
    inner_steps_.start_ahead(generation, std::min(schedule_.overlap, values.free_steps + 1));
    Arriving exchanged{.turn = turn, .begin = generation.communicator.now()};
    try {
      exchanged.stop = send(generation, values, part, change, done, turn.arrives);
    } catch (...) {
      // The steps beside it use what is about to be destroyed.
      if (generation.compute_thread) generation.compute_thread->drain();
      throw;
    }
    exchanged.end = generation.communicator.now();
    exchanged.timers = generation.sample.timers;
    generation.sample.timers.reset();
    arriving_ = exchanged;
  }

  /// Makes an inner step. Once all steps beside an exchange are done, its time is divided into what they hid and what
  /// they did not.
  void make_step(Generation& generation, const StepValues& values) {
    const double begin = generation.communicator.now();
    inner_steps_.step(generation, values);
    round_.add_step(inner_steps_.end() - begin);
    if (!arriving_ || inner_steps_.is_ahead()) return;
    const double exposed = std::max(0.0, arriving_->end - std::max(arriving_->begin, inner_steps_.end()));
    arriving_->timers.add(StepPart::kExchangeExposed, exposed);
    arriving_->timers.add(StepPart::kExchangeHidden, arriving_->end - arriving_->begin - exposed);
    arriving_->begin = arriving_->end = 0;
  }

  /// Takes the result of the exchange on its way. Returns whether a signal asked to stop then.
  bool arrive(Generation& generation) {
    add_times(arriving_->timers, generation.sample.timers);
    give(generation, parts_[arriving_->turn.fragment], mix_);
    const bool stop = arriving_->stop;
    arriving_.reset();
    return stop;
  }

  void give(Generation& generation, const Part& part, float mix) {
    exchange::run_part(generation.state.device(), generation.sample.timers, StepPart::kOptimize,
                       [&] { outer_.give(part.tensors, mix); });
  }

  FragmentSchedule schedule_;
  RoundLength round_;
  float mix_;
  bool clips_;
  double outer_rate_;
  OuterParameters outer_;
  std::vector<Part> parts_;  // by fragment
  Part whole_;
  InnerSteps inner_steps_;
  bool is_synchronized_ = true;
  bool has_own_parameters_ = false;  // else they are the common ones
  std::optional<Arriving> arriving_;
};

const Registration<UpdateSchemeEntry> registration{[](UpdateSchemeEntry& entry) {
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
  entry.make = [](const Settings& settings, ParameterArena& arena) { return std::make_unique<Local>(settings, arena); };
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
}};

}  // namespace
}  // namespace dragonn::trainer

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

#include "exchange/resize.h"
#include "exchange/run_part.h"
#include "optim/clip.h"
#include "trainer/update/logged_update.h"
#include "trainer/update/schemes/fragments.h"
#include "trainer/update/schemes/inner_steps.h"
#include "trainer/update/schemes/local_entry.h"
#include "trainer/update/schemes/model_parts.h"
#include "trainer/update/schemes/outer_parameters.h"
#include "trainer/update/schemes/round_length.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kOuter = "outer/";
constexpr const char* kInner = "parameters";
constexpr const char* kArriving = "arriving";
constexpr const char* kRound = "round/";

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
        outer_(arena, [&](ParameterArena& own) { return make_outer(settings, own); }) {}

  StepOutcome step(Generation& generation, const StepValues& values) override {
    find_parts(generation);
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
      const ModelPart& part = is_last ? parts_.back() : parts_[turn.fragment];
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
    find_parts(generation);
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
  std::string unsent_field() const override { return kInner; }
  SharedModel shared_model() override { return outer_.model(); }
  void save_shared(Archive& model, const std::string& prefix) const override { outer_.save(model, prefix + kOuter); }
  void load_shared(const Archive& model, const std::string& prefix) override {
    // A run of another scheme has no outer optimizer, so the first round from there starts one.
    if (exchange::has_fields(model, prefix + kOuter)) outer_.load(model, prefix + kOuter);
  }

 private:
  /// An exchange whose result arrives in a later step. The common parameters are moved; this rank's are not.
  struct Arriving {
    FragmentTurn turn;
    bool stop = false;          ///< agreed on in the exchange
    double begin = 0, end = 0;  ///< of the exchange, until that time is divided
    StepTimers timers = {};     ///< of the exchange: they are told with its result
  };

  void find_parts(const Generation& generation) {
    if (parts_.empty())
      parts_ = model_parts(generation.state.network.arena(), schedule_.fragments, *generation.gradient_exchange);
  }

  /// Returns the step after which the ranks go on from a step of this rank: the round's planned end if it is the last
  /// for which the rank has time.
  std::uint64_t end_of(const Generation& generation, std::uint64_t step) const {
    const std::uint64_t planned = std::min(schedule_.next(step - 1).arrives, generation.state.total_steps);
    const comm::Communicator& communicator = generation.communicator;
    return round_.is_cut(planned, communicator.rank(), communicator.size()) ? planned : step;
  }

  View<const float> take_change(Generation& generation, const ModelPart& part) {
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
  bool send(Generation& generation, const StepValues& values, const ModelPart& part, View<const float> change,
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
    generation.state.tell_update({outer_rate_, (arrives - 1) / schedule_.round, 1, sums});
    return word.stop;
  }

  /// Exchanges a change between two inner steps. Returns whether a signal asks to stop.
  bool exchange_now(Generation& generation, const StepValues& values, const ModelPart& part, std::uint64_t done) {
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
    const ModelPart& part = parts_[turn.fragment];
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

  void give(Generation& generation, const ModelPart& part, float mix) {
    exchange::run_part(generation.state.device(), generation.sample.timers, StepPart::kOptimize,
                       [&] { outer_.give(part.tensors, mix); });
  }

  FragmentSchedule schedule_;
  RoundLength round_;
  float mix_;
  bool clips_;
  double outer_rate_;
  OuterParameters outer_;
  std::vector<ModelPart> parts_;  // by fragment; the last one is the whole model
  InnerSteps inner_steps_;
  bool is_synchronized_ = true;
  bool has_own_parameters_ = false;  // else they are the common ones
  std::optional<Arriving> arriving_;
};

const Registration<UpdateSchemeEntry> registration{[](UpdateSchemeEntry& entry) {
  describe_local(entry);
  entry.make = [](const Settings& settings, ParameterArena& arena) { return std::make_unique<Local>(settings, arena); };
}};

}  // namespace
}  // namespace dragonn::trainer

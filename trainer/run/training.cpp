// SPDX-License-Identifier: MIT
#include "trainer/run/training.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <ranges>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agreement.h"
#include "core/fault_point.h"
#include "core/file.h"
#include "core/log.h"
#include "exchange/run_part.h"
#include "kernels/nn/elementwise.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/evaluation.h"
#include "trainer/run/signals.h"
#include "trainer/run/state_listener.h"
#include "trainer/weights/model_weights.h"

namespace dragonn::trainer {
namespace {

double mean_density(const exchange::ExchangeCounts& counts) {
  if (counts.numel == 0) return 1.0;
  const double selected = std::accumulate(counts.selected.begin(), counts.selected.end(), 0.0);
  return selected / static_cast<double>(counts.selected.size()) / static_cast<double>(counts.numel);
}

/// Collective. Returns the smallest and the largest of the ranks' values.
std::pair<std::uint64_t, std::uint64_t> extremes(comm::Communicator& communicator, std::uint64_t value) {
  std::array<std::uint64_t, 2> largest{~value, value};
  communicator.allreduce_max(std::span<std::uint64_t>(largest));
  return {~largest[0], largest[1]};
}

}  // namespace

Training::Training(const Job& job, const RunPlan& plan, TrainingState& state, comm::Communicator& communicator)
    : config_(job.config),
      folder_(job.folder),
      state_(state),
      communicator_(communicator),
      generation_(job, plan, state, communicator),
      recorder_(job, plan, generation_),
      checkpoints_(folder_.checkpoints()),
      stop_agreement_(communicator,
                      [this] {
                        state_.commits.require_group_of_leaver();
                        return state_.commits.wants_stop();
                      }),
      update_(plan.update) {}

void Training::prepare_fresh() {
  if (wants_costs(config_, communicator_.size())) given_profile(generation_.selection_question());
  if (config_.train.init_from.empty()) return;
  for (const std::string& warning :
       import_weights(config_.train.init_from, state_.network, config_.model.entry().weights))
    recorder_.warn("train.init_from: " + warning);
  log::info(communicator_.rank(), "starts from the weights in {}", config_.train.init_from);
}

void Training::share_initial_weights() {
  if (config_.train.init_from.empty()) return;
  const ClockPause pause(communicator_.clock());
  for (const View<float>& values : {state_.network.arena().values(), state_.network.statistics()}) {
    if (values.empty()) continue;
    kernels::HostMirror<float> mirror;
    const std::span<const float> mine = mirror.of(values);
    Buffer<float> copy(mine.size());
    std::ranges::copy(mine, copy.host().begin());
    communicator_.broadcast(0, comm::Communicator::as_writable_bytes(copy.host()));
    if (communicator_.rank() != 0) kernels::transfer(View<const float>(copy.view()), values);
  }
}

void Training::choose_tensors() {
  std::optional<TensorSelection>& selection = generation_.selection;
  exchange::GradientExchange& exchange = *generation_.gradient_exchange;
  if (selects_by_cost(config_) && communicator_.size() == 1) {
    recorder_.warn(
        "compression.select_tensors = \"cost_model\" with one worker: nothing is exchanged, so sparsifying gains "
        "nothing, and every tensor stays dense");
    std::vector<exchange::BucketChoice> choices;
    for (const double density : generation_.selection_question().densities)
      choices.push_back({density, std::vector<bool>(exchange.buckets().size(), false)});
    return exchange.restrict_to(std::move(choices));
  }
  if (exchange.terms() == 1) return selection.reset();  // nothing leaves the node
  // A restored decision may lack a density that this run's config schedules.
  const auto is_known = [&](double density) {
    return std::ranges::count(selection->densities, density, &DensityCosts::density) > 0;
  };
  if (!wants_costs(config_, communicator_.size())) {
    selection.reset();
    if (measures_briefly(config_, communicator_))
      selection = estimate_costs(communicator_, generation_.selection_question());
    if (!selection) return;
  } else if (!selection || selection->ranks != exchange.terms() ||
             !std::ranges::all_of(generation_.selection_question().densities, is_known)) {
    selection = trainer::choose_tensors(communicator_, generation_.selection_question());
  }
  if (selection->densities.empty() && !selection->advice) return;
  recorder_.log_advice();
  comm::all_ranks_or_none(communicator_, [&] {
    if (selects_by_cost(config_)) exchange.restrict_to(bucket_choices(*selection, exchange.buckets()));
    if (communicator_.rank() == 0) write_file_atomically(folder_.profile(), to_json(*selection));
  });
}

void Training::take_over(StateSource& source) {
  stopped_ = generation_.reshard_from(source);
}

void Training::resume(StateSource& source) {
  comm::all_ranks_or_none(communicator_, [&] {
    fault_point("resume");
    if (!stopped_) take_over(source);
    if (const std::string changes = changes_since(source.model(), state_.config); !changes.empty())
      recorder_.warn(fmt::format("resumed after step {}; {}", state_.progress.step, changes));
    else
      goes_on_ = true;
  });
  log::info(communicator_.rank(), "resumes from {} after step {}", source.name(), state_.progress.step);
  if (source.workers() != communicator_.size()) tell_resize(*stopped_, source.workers());
}

void Training::go_on(LeftState& left) {
  follows_ = true;
  resume(left);
  const View<float> statistics = state_.network.statistics();
  if (left.has_same_ranks(communicator_.size()) || statistics.size() == 0) return;
  // The mean over those that have trained: a copy has no weight.
  std::uint64_t owners = left.is_copy() ? 0 : 1;
  communicator_.allreduce_sum(std::span(&owners, 1));
  if (left.is_copy()) kernels::fill(0.0f, statistics);
  Buffer<float> mean = mean_statistics(communicator_, state_.network);
  const float share = static_cast<float>(communicator_.size()) / static_cast<float>(owners);
  for (float& value : mean.host()) value *= share;
  kernels::copy(mean.view(), statistics);
}

void Training::restore_lost(MembershipRecord& generation) {
  members_ = generation.plan.members;
  struct Part {
    std::int64_t owner = -1;  // none
    double sum = 0;
  } mine;
  if (state_.copies) {
    state_.copies->abandon();
    for (const auto& [owner, sum] : state_.copies->add_lost(*generation_.gradient_exchange, members_))
      mine = {owner, sum};  // a rank has one copy
  }
  std::vector<Part> parts(members_.size());
  communicator_.allgather_values(std::span<const Part>(&mine, 1), std::span(parts));
  // A member that has just come knows nothing of earlier losses: rank 0's sums count.
  lost_ = {};
  for (auto& [loss, restored_sum] : generation.lost) {
    const auto found = std::ranges::find(parts, loss.member, &Part::owner);
    if (found != parts.end()) restored_sum = found->sum;
    ++lost_.members;
    if (!loss.mass) ++lost_.unknown;
    lost_.sum += loss.mass ? loss.mass->sum : 0;
    lost_.l1 += loss.mass ? loss.mass->l1 : 0;
    lost_.restored_sum += restored_sum.value_or(0);
  }
  communicator_.broadcast_value(0, lost_);
}

void Training::count_lost() {
  LostMass& total = state_.progress.lost;
  total.members += lost_.members;
  total.unknown += lost_.unknown;
  total.sum += lost_.sum;
  total.l1 += lost_.l1;
  total.restored_sum += lost_.restored_sum;
}

std::unique_ptr<LeftState> Training::leave() {
  auto left = std::make_unique<LeftState>(communicator_.rank(), communicator_.size());
  if (before_step_) {
    left->own = std::move(*before_step_);
  } else {
    generation_.save(nullptr, left->own, {});
  }
  const std::vector<float> statistics = TrainingState::statistics_of(left->own);
  if (generation_.leaves_values()) {
    generation_.save_model_rest(left->shared, statistics);
    left->leave_values(state_);
  } else {
    generation_.save_model(left->shared, statistics);
  }
  return left;
}

void Training::tell_resize(const DataPosition& stopped, int workers) {
  const RunPosition& position = state_.position;
  const std::uint64_t step = state_.progress.step;
  const bool is_over = position.epoch(step) > stopped.epoch;
  const std::string rest = is_over ? "the rest, which fills no step, is left out" : "the others follow";
  recorder_.warn(
      fmt::format("{} workers go on after step {} of {} workers: {} samples of epoch {} are done, {}; a step takes {} "
                  "samples instead of {}; schedules in epochs count step {} as step {}",
                  communicator_.size(), step, workers, stopped.samples(), stopped.epoch + 1, rest,
                  position.samples_per_step(), stopped.parts.back().samples_per_step, step, position.scheduled(step)));
  if (follows_)
    return log::info(communicator_.rank(),
                     "each worker goes on with its own state; that of workers that left is lost, and workers that "
                     "joined have no residual");
  std::vector<std::string> rules = generation_.gradient_exchange->describe_resharding();
  if (state_.network.statistics().size() > 0) rules.emplace_back("batch-norm statistics start from their mean");
  if (state_.network.carries_state()) rules.emplace_back("the state carried from batch to batch starts from zeros");
  const UpdateSchemeEntry& scheme = config_.update.scheme.entry();
  if (scheme.resize.kind != OnResize::kStateless)
    rules.push_back(exchange::part_name(scheme) + " " + scheme.resize.how);
  if (config_.update.steps_locally())
    rules.emplace_back("the optimizer of rank r goes on from that of rank r modulo the former number of workers");
  if (selects_by_cost(config_)) rules.emplace_back("the cost model decides anew");
  if (rules.empty()) rules.emplace_back("nothing is kept by workers");
  log::info(communicator_.rank(), "state of {} workers for {}: {}", workers, communicator_.size(),
            fmt::join(rules, "; "));
}

int Training::train() {
  StopSignals::training_begins();
  begin_rounds();
  recorder_.begin();
  const Progress& progress = state_.progress;
  seek_data();
  const auto is_last = [&] { return progress.step == state_.total_steps || state_.is_out_of_patience(); };
  // The group before may have left the last step that it committed without what follows one.
  const bool is_left =
      follows_ && progress.step > 0 && (is_last() || generation_.scheme->communicates(generation_, progress.step));
  if (is_left && (progress.step > state_.synchronized_step || is_last())) end_step(/*stops=*/false);
  while (!is_last()) {
    const std::optional<StepOutcome> outcome = run_step();
    const ClockPause after_the_step(communicator_.clock());
    if (!outcome) return stop_on_signal();
    if (const auto code = end_step(outcome->stop)) return *code;
  }
  finish();
  return 0;
}

std::optional<int> Training::end_step(bool stops) {
  const std::uint64_t step = state_.progress.step;
  const bool is_synchronized = generation_.scheme->is_synchronized();
  bool last = step == state_.total_steps;
  const bool is_done = step == state_.synchronized_step;  // before this group began
  if (is_synchronized && !is_done && (last || state_.epoch_is_due(config_.train.eval_every_epochs))) evaluate_now();
  last = last || state_.is_out_of_patience();
  const bool saves = last || saves_after(step);
  if (is_synchronized) state_.synchronized_step = step;
  if (!last && is_synchronized && stops) return stop_on_signal();
  state_.commits.between([&] {
    recorder_.end_step(step, last);
    if (saves) save_checkpoint();
  });
  return std::nullopt;
}

void Training::seek_data() {
  const std::uint64_t scheduled = state_.position.scheduled(state_.progress.step);
  generation_.loader.seek(scheduled / state_.position.steps_per_epoch(), scheduled % state_.position.steps_per_epoch());
}

void Training::begin_rounds() {
  const std::uint64_t step = state_.progress.step, period = generation_.steps_per_exchange;
  const ClockPause before_the_steps(communicator_.clock());
  comm::all_ranks_or_none(communicator_, [&] {
    generation_.scheme->begin(generation_, goes_on_ ? folder_.metrics() : std::filesystem::path());
  });
  state_.furthest_step = step;
  if (period == 1) return;
  const auto [first, furthest] = extremes(communicator_, step);
  state_.furthest_step = furthest;
  const auto between = std::views::iota(first + 1, furthest + 1);
  const bool is_one_round =
      furthest < state_.total_steps && std::ranges::none_of(between, [&](std::uint64_t other) {
        return update_.skips_steps ? other % period == 0 : generation_.scheme->communicates(generation_, other);
      });
  require(
      first == furthest || is_one_round,
      "the ranks go on from steps {} to {}, which are of one round: expected update.inner_steps, update.fragments and "
      "train.max_steps as in the run that saved them",
      first, furthest);
}

bool Training::is_meeting(std::uint64_t step) const {
  if (step == state_.total_steps || generation_.scheme->communicates(generation_, step)) return true;
  return !saves_at_exchanges() && (saves_after(step) || recorder_.ends_timeline(step));
}

bool Training::may_begin(std::uint64_t step) {
  if (generation_.scheme->awaits_result()) return true;
  const bool meets = is_meeting(step);
  bool may = true;
  const auto ask = [&] { may = stop_agreement_.may_begin(meets); };
  if (meets) {
    begin_meeting();
    exchange::run_part({}, generation_.sample.timers, StepPart::kExchange, ask);
  } else {
    state_.commits.require_group_of_leaver();
    state_.commits.between(ask);
  }
  return may;
}

int Training::stop_on_signal() {
  return stop(state_.commits.is_elastic() ? "a signal, or the end of the coordinator," : "a signal");
}

int Training::stop(const char* reason) {
  state_.commits.require_group();
  recorder_.end_step(extremes(communicator_, state_.progress.step).second, /*is_last_of_run=*/true);
  save_checkpoint();
  log::info(communicator_.rank(),
            "{} stopped the run after step {}; a checkpoint is saved: --resume auto "
            "continues from it",
            reason, state_.progress.step);
  commit();
  return kExitRequeue;
}

std::optional<StepOutcome> Training::run_step() {
  Progress& progress = state_.progress;
  const double begin = communicator_.now();
  communicator_.set_label(fmt::format("step {}", progress.step + 1));
  StepSample& sample = generation_.sample;
  sample.timers.reset();
  const std::uint64_t period = generation_.steps_per_exchange;
  if (period == 1) begin_meeting();
  if (period > 1 && !may_begin(progress.step + 1)) return std::nullopt;
  const comm::PhaseTraffic before = communicator_.traffic().by_phase();
  if (generation_.scheme->is_synchronized()) {
    sample.traffic = {};
    has_exchanged_ = false;
  }
  // Ranks that leave out steps exchange in the place of the planned end.
  const std::uint64_t exchange_step =
      update_.skips_steps ? std::min((progress.step / period + 1) * period, state_.total_steps) - 1 : progress.step;
  const double rate_share = state_.rate_share(progress.step);
  const StepValues values{
      .learning_rate = state_.learning_rate(progress.step),
      .rate_share = rate_share,
      .density = density_at(config_.compression, state_.position.epoch(exchange_step), progress.step / period,
                            (state_.total_steps + period - 1) / period, rate_share),
      .accumulated = recorder_.dump_target(),
      .is_last = progress.step + 1 == state_.total_steps,
      .free_steps = free_steps()};
  StepOutcome outcome;
  {
    const ScopedRecording recording = recorder_.record_timeline();
    const Span span(Track::kSteps, "step", {.step = static_cast<std::int64_t>(progress.step) + 1});
    outcome = generation_.scheme->step(generation_, values);
    if (outcome.is_exchanged) recorder_.write_dump();
  }
  before_step_.reset();
  progress.step += 1 + outcome.skipped;
  progress.samples += samples_of(outcome);
  if (outcome.skipped > 0 && progress.step < state_.total_steps) seek_data();
  const ClockPause after_the_step(communicator_.clock());
  const comm::PhaseTraffic traffic = communicator_.traffic().by_phase() - before;
  for (std::size_t phase = 0; phase < traffic.size(); ++phase) sample.traffic[phase] += traffic[phase];
  if (outcome.is_exchanged) progress.density_sum += mean_density(generation_.gradient_exchange->counts());
  progress.bytes_sent += static_cast<double>(exchange_traffic(traffic).bytes_sent);
  state_.commits.between([&] {
    if (state_.is_due(config_.train.replica_check_every) && generation_.scheme->is_synchronized())
      check_replicas(communicator_, generation_.model_parameters(), progress.step);
    recorder_.check_traffic(values, outcome);
    progress.step_seconds += communicator_.now() - begin;
    progress.busy_seconds += computing_seconds(sample.timers);
    has_exchanged_ = has_exchanged_ || outcome.is_exchanged;
    outcome.is_exchanged = has_exchanged_;
    recorder_.record_step(values, outcome);
  });
  return outcome;
}

void Training::begin_meeting() {
  if (!state_.commits.is_elastic()) return;
  state_.commits.require_group(state_.progress.step);
  before_step_ = std::make_unique<Archive>();
  generation_.save(nullptr, *before_step_, {});
  copy_residuals();
  StateListener* const listener = state_.listener;
  if (listener == nullptr) return;
  const std::uint64_t place = state_.commits.place();
  if (listener->wants_mass()) {
    const auto [sum, l1] = generation_.gradient_exchange->residual_mass();
    listener->take_mass(place, sum, l1);
  }
  if (!listener->wants_copy(place)) return;
  LeftState copy(communicator_.rank(), communicator_.size());
  for (const auto& [name, field] : before_step_->fields())
    if (!generation_.stays_with_rank(name)) copy.own.put_field(name, field);
  generation_.save_model(copy.shared, TrainingState::statistics_of(*before_step_));
  listener->take_copy(place, copy);
}

void Training::copy_residuals() {
  const std::uint64_t exchanges = state_.progress.step / generation_.steps_per_exchange;
  const auto every = static_cast<std::uint64_t>(config_.comm.residual_copy_every);
  if (!state_.copies || communicator_.size() == 1 || exchanges % every != 0) return;
  state_.copies->take(communicator_, *generation_.gradient_exchange, *before_step_, members_);
  commit();  // else a rank could have the new copy, and another one that is gone the former
  state_.copies->commit();
  state_.commits.require_group();  // the generation may have ended between copies and step
}

void Training::commit() {
  if (state_.commits.is_elastic()) state_.commits.run([&] { communicator_.barrier(); });
}

void Training::evaluate_now() {
  state_.commits.require_group();
  fault_point("evaluate");
  const SharedParameters shared(state_.network, generation_.scheme->model_parameters());
  const AveragedStatistics averaged(communicator_, state_.network);
  const EvaluationResult result = evaluate(communicator_, state_.network, generation_.test);
  const EvalRecord record{.step = state_.progress.step,
                          .epoch = state_.epochs_done(),
                          .loss = result.loss,
                          .qualities = result.qualities,
                          .time = generation_.run_time()};
  commit();
  state_.observe(record);
  recorder_.record_evaluation();
}

std::uint64_t Training::free_steps() const {
  std::uint64_t step = state_.progress.step + 1, free = 0;
  for (; free + 1 < update_.overlap_steps && step < state_.total_steps; ++step, ++free) {
    if (saves_after(step) || recorder_.ends_timeline(step)) break;
  }
  return free;
}

std::uint64_t Training::samples_of(const StepOutcome& outcome) const {
  const std::uint64_t of_all = state_.position.samples_per_step(), ranks = outcome.inner_steps.size();
  if (ranks == 0) return of_all;
  const std::uint64_t made = std::accumulate(outcome.inner_steps.begin(), outcome.inner_steps.end(), std::uint64_t{0});
  const std::uint64_t own = outcome.inner_steps[static_cast<std::size_t>(communicator_.rank())];
  return of_all + (made - ranks * own) * (of_all / ranks);  // modulo 2^64: the correction may be negative
}

bool Training::saves_after(std::uint64_t step) const {
  const CheckpointConfig& checkpoint = config_.checkpoint;
  if (saves_at_exchanges()) {
    if (!generation_.scheme->is_synchronized()) return false;
    if (state_.is_due(checkpoint.every_steps) || state_.epoch_is_due(checkpoint.every_epochs)) return true;
  } else {
    if (step <= state_.furthest_step) return false;  // some rank is past it
    if (state_.ends_steps(checkpoint.every_steps, step) || state_.ends_epochs(checkpoint.every_epochs, step))
      return true;
  }
  // The best parameters are kept only if they were saved while they were the current ones.
  const bool wanted = checkpoint.keep_best && (checkpoint.every_steps > 0 || checkpoint.every_epochs > 0);
  return wanted && state_.progress.best && state_.progress.best->step == step;
}

void Training::save_checkpoint() {
  Progress& progress = state_.progress;
  progress.time = generation_.elapsed();
  const Buffer<float> mean = mean_statistics(communicator_, state_.network);
  checkpoints_.save(communicator_, progress.step, [&](Archive* model, Archive& rank) {
    fault_point("save");
    generation_.save(model, rank, mean.host());
  });
  if (communicator_.rank() != 0) return;
  const bool keep_best = config_.checkpoint.keep_best && progress.best.has_value();
  checkpoints_.prune(config_.checkpoint.keep, keep_best ? std::optional(progress.best->step) : std::nullopt);
}

void Training::finish() {
  const ClockPause pause(communicator_.clock());
  state_.commits.require_group();
  fault_point("finish");
  DRAGONN_CHECK(generation_.scheme->is_synchronized(), "the update scheme leaves the ranks with different parameters");
  recorder_.finish(check_replicas(communicator_, generation_.model_parameters(), state_.progress.step));
  commit();
}

}  // namespace dragonn::trainer

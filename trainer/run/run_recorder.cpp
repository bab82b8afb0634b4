// SPDX-License-Identifier: MIT
#include "trainer/run/run_recorder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/npy.h"
#include "core/units_text.h"
#include "trainer/config/exchange_config.h"

namespace dragonn::trainer {
namespace {

/// Returns the factor, at least 1, between two numbers of bytes.
double factor(double a, double b) {
  return std::max(a, b) / std::max(1.0, std::min(a, b));
}

}  // namespace

GradientDump::GradientDump(std::filesystem::path folder, std::vector<std::int64_t> steps, std::size_t numel)
    : folder_(std::move(folder)), steps_(std::move(steps)), accumulated_(steps_.empty() ? 0 : numel) {}

View<float> GradientDump::target(std::uint64_t step) {
  return is_named(step) ? accumulated_.view() : View<float>();
}

void GradientDump::write(comm::Communicator& communicator, std::uint64_t step) {
  if (!is_named(step)) return;
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kMetrics);
  comm::all_ranks_or_none(communicator, [&] {
    std::error_code code;
    std::filesystem::create_directories(folder_, code);
    if (code) throw SystemError(fmt::format("cannot create {}: {}", folder_.string(), code.message()));
    const auto path = folder_ / fmt::format("step-{:08}-rank-{:04}.npy", step, communicator.rank());
    write_npy<float>(path, Shape{static_cast<std::int64_t>(accumulated_.size())}, accumulated_.host());
  });
}

std::optional<SeenTraffic> TrafficCheck::add(comm::Communicator& communicator, const exchange::ExchangeCounts& counts,
                                             double bytes) {
  if (++steps_ + kWindow <= next_) return std::nullopt;
  bytes_ += bytes;
  sums_.numel += counts.numel;
  sums_.target += counts.target;
  sums_.padded += counts.padded;
  sums_.global += counts.global;
  selected_ += std::accumulate(counts.selected.begin(), counts.selected.end(), 0.0);
  if (steps_ < next_) return std::nullopt;
  communicator.allreduce_sum(std::span<double>(&bytes_, 1));
  const SeenTraffic seen{bytes_ / static_cast<double>(kWindow) / communicator.size(), seen_counts(communicator.size())};
  next_ *= 2;
  bytes_ = selected_ = 0;
  sums_ = {};
  const bool is_news = told_ ? factor(seen.bytes, *told_) >= kChange : is_off(seen.bytes);
  if (!is_news) return std::nullopt;
  told_ = seen.bytes;
  return seen;
}

bool TrafficCheck::is_off(double bytes) const {
  const bool is_inside = assumed_.low <= bytes && bytes <= assumed_.high;
  return factor(bytes, assumed_.expected) >= (is_inside ? kInRange : kOutside);
}

comm::AssumedCounts TrafficCheck::seen_counts(int ranks) const {
  const auto& collective = Registry<comm::SparseCollectiveEntry>::instance().at(rules_->collective.name);
  const double union_size = std::min(selected_, static_cast<double>(sums_.numel));
  const double sum_size = collective.sum == comm::SumSize::kTarget ? sums_.target : union_size;
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
  return {.selected = share(selected_ / ranks, sums_.target),
          .longest = share(static_cast<double>(sums_.padded), selected_),
          .sum = share(static_cast<double>(sums_.global), sum_size)};
}

RunRecorder::RunRecorder(const Job& job, const RunPlan& plan, Generation& generation)
    : config_(job.config),
      folder_(job.folder),
      plan_(plan),
      data_warnings_(job.data.warnings),
      generation_(generation),
      state_(generation.state),
      communicator_(generation.communicator),
      dump_(folder_.gradients(), config_.logging.dump_gradients, generation.gradient_exchange->dump_size()),
      predicted_(plan.bytes) {}

void RunRecorder::begin() {
  if (config_.compression.overlap && !generation_.overlapped)
    warn("compression.overlap = true has no effect: " + plan_.overlap_obstacle);
  for (const std::string& warning : config_warnings(config_)) warn(warning);
  for (const std::string& warning : data_warnings_) warn(warning);
  begin_traffic_check();
  const std::uint64_t step = state_.progress.step;
  if (communicator_.rank() == 0) {
    std::unique_ptr<EventFile> events;
    if (config_.logging.tensorboard) {
      events = std::make_unique<EventFile>(folder_.path, next_step());
      events->write_text(next_step(), "config", "```toml\n" + to_toml(config_) + "```\n");
    }
    const TimeKind times = generation_.is_virtual() ? TimeKind::kVirtual : TimeKind::kWall;
    metrics_ = std::make_unique<MetricsWriter>(folder_.metrics(), step, times, std::move(events));
    report_ = std::make_unique<ProgressReport>(ProgressReport::Run{.first_step = step,
                                                                   .total_steps = state_.total_steps,
                                                                   .total_epochs = config_.train.epochs,
                                                                   .is_time_virtual = generation_.is_virtual(),
                                                                   .overlaps = generation_.compute_thread != nullptr,
                                                                   .is_exchange_rare = plan_.steps_per_exchange > 1});
  }
  if (config_.logging.trace > 0)
    timeline_ = std::make_unique<StepTimeline>(config_.logging, state_.furthest_step, communicator_, folder_.trace());
}

ScopedRecording RunRecorder::record_timeline() {
  return timeline_ ? timeline_->record(next_step()) : ScopedRecording(nullptr, communicator_.clock());
}

void RunRecorder::write_dump() {
  const ClockPause pause(communicator_.clock());
  dump_.write(communicator_, next_step());
}

void RunRecorder::record_step(const StepValues& values, const StepOutcome& outcome) {
  const Progress& progress = state_.progress;
  StepSample& sample = generation_.sample;
  if (report_) report_->step(progress.step, state_.epochs_done(), progress.samples_per_second(), sample);
  if (metrics_ && !outcome.inner_steps.empty()) metrics_->write_round(progress.step, outcome.inner_steps);
  // A line is reduced over the ranks, so it waits until they are synchronized.
  const bool is_due = state_.is_due(config_.logging.every_steps) || progress.step == state_.total_steps;
  if (!is_due || !generation_.scheme->is_synchronized()) return;
  StepRecord record{.step = progress.step,
                    .epoch = state_.epochs_done(),
                    .learning_rate = values.learning_rate,
                    .density_target = values.density};
  if (outcome.is_exchanged) record.counts = generation_.gradient_exchange->counts();
  const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kMetrics);
  sample.lists = record.counts.lists;
  sample.residual_norm = config_.compression.is_dense() ? std::nan("") : generation_.gradient_exchange->residual_norm();
  reduce_step(communicator_, sample, record);
  record.bytes_sent_total = generation_.bytes_sent_by_all() / communicator_.size();
  record.utilization = progress.utilization();
  record.bytes_per_step = record.bytes_sent_total / static_cast<double>(progress.step);
  record.time = generation_.run_time();
  warn_if_traffic_exceeds_dense(record);
  if (const std::string obstacle = state_.network.repetition_obstacle(); !obstacle.empty()) {
    const std::string unrepeated = "device_graphs = true has no effect on some passes: " + obstacle;
    if (std::ranges::count(state_.progress.warnings, unrepeated) == 0) warn(unrepeated);
  }
  if (communicator_.rank() != 0) return;
  metrics_->write(record);
  report_->record(record);
}

void RunRecorder::record_evaluation() {
  record_residuals();
  if (communicator_.rank() != 0) return;
  const Progress& progress = state_.progress;
  const EvalRecord& record = *progress.last;
  const Quality& best = progress.best->qualities.front();
  metrics_->write(record);
  log::info(0, "epoch {:.4g}/{}  step {}/{}  test loss {:.4f}  {}  (best {})  {:.0f} samples/s{}", record.epoch,
            config_.train.epochs, record.step, state_.total_steps, record.loss, describe(record.qualities.front()),
            describe_value(best), progress.samples_per_second(), generation_.is_virtual() ? " (virtual)" : "");
  if (!state_.is_out_of_patience() || record.step == state_.total_steps) return;
  log::info(0,
            "the run ends after step {}: {} evaluations have not improved on {} at epoch {:.4g} (train.patience = {})",
            record.step, progress.evaluations_since_best, describe(best), progress.best->epoch, config_.train.patience);
}

void RunRecorder::record_residuals() {
  if (!config_.logging.tensorboard) return;
  const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kMetrics);
  MagnitudeCounts magnitudes;
  kernels::HostMirror<float> residual;
  for (std::size_t bucket = 0; bucket < generation_.gradient_exchange->buckets().size(); ++bucket) {
    if (!generation_.gradient_exchange->has(bucket)) continue;
    magnitudes.add(residual.of(generation_.gradient_exchange->memory(bucket).residual()));
  }
  communicator_.allreduce_sum(magnitudes.counts());
  if (metrics_) metrics_->write_residual(state_.progress.step, magnitudes);
}

void RunRecorder::end_step(std::uint64_t step, bool is_last_of_run) {
  if (timeline_) timeline_->end_step(step, is_last_of_run);
}

void RunRecorder::warn(const std::string& warning) {
  if (communicator_.rank() == 0) log::warning(0, "{}", warning);
  // A resumed run may have to warn again.
  std::vector<std::string>& known = state_.progress.warnings;
  if (std::ranges::count(known, warning) == 0) known.push_back(warning);
}

void RunRecorder::warn_if_traffic_exceeds_dense(const StepRecord& record) {
  if (config_.compression.is_dense() || communicator_.size() == 1) return;
  if (state_.progress.dense_is_faster) return;
  const double dense = plan_.dense_cost.bytes_sent;
  // The first epochs of a density warm-up send more on purpose.
  const bool selects = config_.compression.selects();
  const bool warming_up = selects && record.density_target > config_.compression.density;
  if (warming_up || record.exchanged.bytes_sent.mean <= dense) return;
  state_.progress.dense_is_faster = true;
  const std::string at = selects ? fmt::format(" at density {}", record.density_target) : "";
  warn(fmt::format(
      "step {}: '{}'{} sends {:.0f} bytes per worker and {} with {} workers; a dense allreduce sends {:.0f}: "
      "dense is faster on any network",
      record.step, config_.compression.method, at, record.exchanged.bytes_sent.mean, unit(), communicator_.size(),
      dense));
}

bool RunRecorder::has_advice() const {
  return config_.logging.advice && generation_.selection && generation_.selection->advice;
}

void RunRecorder::log_advice() {
  if (has_advice())
    tell(describe_advice(*generation_.selection) + config_.update.describe_period(), *generation_.selection->advice);
}

void RunRecorder::tell(const std::string& text, const StepAdvice& advice) {
  if (advice.sparse_is_faster()) return log::info(communicator_.rank(), "{}", text);
  if (!wants_costs(config_, communicator_.size())) {
    // What was measured briefly is no part of the run's state, where warnings are.
    if (communicator_.rank() == 0) log::warning(0, "{}", text);
    return;
  }
  state_.progress.dense_is_faster = true;
  warn(text);
}

void RunRecorder::begin_traffic_check() {
  const double density = config_.compression.density;
  const int size = communicator_.size();
  // What is assumed is for the whole model, and all workers alike.
  if (plan_.rules.nodes || !config_.compression.selects() || size == 1 || plan_.update.fragments > 1) return;
  exchange::ExchangePlan plan = plan_.exchange;
  if (generation_.selection && selects_by_cost(config_)) {
    const auto choices = bucket_choices(*generation_.selection, generation_.gradient_exchange->buckets());
    const auto choice = std::ranges::find(choices, density, &exchange::BucketChoice::density);
    if (choice == choices.end()) return;
    apply_choice(config_.rules, *choice, size, plan);
    predicted_ = exchange::forecast_bytes(config_.rules, plan, density, size);
  }
  if (std::ranges::count(plan.buckets, exchange::ExchangeForm::kSparse, &exchange::BucketPlan::form) == 0) return;
  traffic_check_.emplace(config_.rules, generation_.ends_unsettled() ? predicted_.first : predicted_.settled);
}

void RunRecorder::check_traffic(const StepValues& values, const StepOutcome& outcome) {
  // A density warm-up sends more on purpose.
  if (!traffic_check_ || !outcome.is_exchanged || values.density != config_.compression.density) return;
  const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kMetrics);
  const comm::PhaseTraffic& traffic = generation_.sample.traffic;
  const auto sent = static_cast<double>(traffic[static_cast<std::size_t>(comm::Phase::kExchange)].bytes_sent);
  const auto seen = traffic_check_->add(communicator_, generation_.gradient_exchange->counts(), sent);
  if (!seen) return;
  const std::uint64_t step = state_.progress.step, period = plan_.steps_per_exchange;
  const double assumed = traffic_check_->assumed().expected;
  std::string line = fmt::format("steps {} to {}: each worker sends {} {} {}, {} times the {} that {}",
                                 step + 1 - TrafficCheck::kWindow * period, step, bytes_text(seen->bytes),
                                 period > 1 ? "an" : "a", unit(), three_digits(seen->bytes / assumed),
                                 bytes_text(assumed), has_advice() ? "the advice took" : "were predicted");
  if (!has_advice()) {
    line += fmt::format(" (dense: {})", bytes_text(plan_.dense_cost.bytes_sent));
    return log::info(communicator_.rank(), "{}", line);
  }
  SelectionQuestion question = generation_.selection_question();
  question.counts = seen->counts;
  question.counts_are_forecast = false;
  TensorSelection corrected = *generation_.selection;
  corrected.advice = advise_again(question, corrected);
  tell(fmt::format("{}; {}", line, describe_advice(corrected)), *corrected.advice);
}

void RunRecorder::finish(std::uint64_t hash) {
  const double bytes_sent = generation_.bytes_sent_by_all();
  const Moment time = generation_.run_time();
  comm::rank_zero_or_none(communicator_, [&] {
    const Summary results = summary(hash, bytes_sent, time);
    write_summary(folder_.summary(), results);
    // A rerun then knows what overlap can hide.
    const StepTimes& times = report_->times();
    if (generation_.selection && times.steps >= 2) {
      generation_.selection->backward_seconds = times.backward / (times.steps - 1);
      write_file_atomically(folder_.profile(), to_json(*generation_.selection));
    }
    const RunOutcome outcome{.folder = folder_.path,
                             .times = times,
                             .first_step = report_->first_step(),
                             .wall_seconds = report_->wall_seconds(),
                             .dense_bytes = plan_.dense_cost.bytes_sent,
                             .is_dense = config_.compression.is_dense() && plan_.steps_per_exchange == 1};
    for (const std::string& line : final_report(results, outcome)) log::info(0, "{}", line);
  });
}

Summary RunRecorder::summary(std::uint64_t hash, double bytes_sent, Moment time) const {
  const Progress& progress = state_.progress;
  const std::uint64_t steps = std::max<std::uint64_t>(progress.step, 1);
  const std::uint64_t period = plan_.steps_per_exchange, interval = config_.update.steps_between_exchanges();
  const std::uint64_t overlap = plan_.update.overlap_steps;
  // The last step is an exchange of its own; one that would arrive with it, or later, has begun before.
  const std::uint64_t exchanges =
      overlap > 0 ? (steps + overlap - 2) / interval + 1 : (steps + interval - 1) / interval;
  const double density = density_at(config_.compression, state_.position.epoch(steps - 1), (steps - 1) / period, 0,
                                    state_.rate_share(steps - 1));
  const std::size_t sparse = generation_.gradient_exchange->sparse_tensors(density);
  return {.final_eval = progress.last,
          .best_eval = progress.best,
          .steps = progress.step,
          .ended_by = state_.ended_by(),
          .seconds_total = time.seconds,
          .network = generation_.is_virtual() ? std::optional(config_.network) : std::nullopt,
          .throughput = progress.samples_per_second(),
          .utilization = progress.utilization(),
          .bytes_sent_total = bytes_sent,
          .predicted_bytes = per_step(predicted_, period),
          .density_mean = progress.density_sum / static_cast<double>(exchanges),
          .tensors_sparse = sparse,
          .tensors_dense = state_.network.arena().parameters().size() - sparse,
          .world_size = communicator_.size(),
          .backend = comm::backend_name(communicator_),
          .device = state_.device().is_cpu() ? "cpu" : "cuda",
          .parameters_hash = hash_text(hash),
          .config_hash = config_hash(config_),
          .lost_mass = progress.lost.members > 0 ? std::optional(progress.lost) : std::nullopt,
          .warnings = progress.warnings};
}

}  // namespace dragonn::trainer

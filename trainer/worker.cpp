// SPDX-License-Identifier: MIT
#include "trainer/worker.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "comm/align.h"
#include "comm/device_transport.h"
#include "core/fault_point.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/memory_ledger.h"
#include "exchange/run_verb.h"
#include "kernels/nn/elementwise.h"
#include "optim/clip.h"
#include "trainer/density_plan.h"
#include "trainer/exchange/apply_sums.h"
#include "trainer/metrics/final_report.h"
#include "trainer/replica_check.h"
#include "trainer/signals.h"

namespace dragonn::trainer {
namespace {

/// The label of memory for passes through the network, for the error when it runs out.
constexpr const char* kPassLabel = "activations and workspace";

data::BatchRules batch_rules(const Config& config, const comm::Communicator& communicator) {
  return {.batch = static_cast<std::size_t>(config.train.batch_size * config.train.gradient_accumulation),
          .seed = static_cast<std::uint64_t>(config.seed),
          .rank = communicator.rank(),
          .world = communicator.size(),
          .remainder = config.train.remainder};
}

std::uint64_t samples_per_step(const Config& config, const comm::Communicator& communicator) {
  return batch_rules(config, communicator).batch * static_cast<std::uint64_t>(communicator.size());
}

double mean_density(const exchange::ExchangeCounts& counts) {
  if (counts.numel == 0) return 1.0;
  const double selected = std::accumulate(counts.selected.begin(), counts.selected.end(), 0.0);
  return selected / static_cast<double>(counts.selected.size()) / static_cast<double>(counts.numel);
}

/// Returns part `micro` of `micro_batches` equal ones. The worker refuses more than one if samples have lists of labels
/// or continue from batch to batch.
layers::NetworkBatch micro_batch(const data::Batch& batch, std::size_t micro, std::size_t micro_batches) {
  layers::NetworkBatch part = network_batch(batch);
  if (micro_batches == 1) return part;
  part.size = batch.count / micro_batches;
  part.inputs = part.inputs.subview(micro * part.size * batch.sample_size, part.size * batch.sample_size);
  part.targets.labels = part.targets.labels.subview(micro * part.size, part.size);
  return part;
}

void check_accumulation(const Config& config, const data::Dataset& data) {
  if (config.train.gradient_accumulation == 1 || data.target_kind() == TargetKind::kClass) return;
  throw ConfigError(
      fmt::format("train.gradient_accumulation = {}: it must be 1 for data '{}', whose samples do not have one "
                  "class each",
                  config.train.gradient_accumulation, config.data.name));
}

}  // namespace

Worker::Worker(const Job& job, const RunPlan& plan, layers::Network network, comm::Communicator& communicator,
               Device device)
    : config_(job.config),
      plan_(plan),
      communicator_(communicator),
      folder_(job.folder),
      data_warnings_(job.data.warnings),
      network_(std::move(network)),
      loader_(job.data.train, batch_rules(config_, communicator), device),
      test_(job.data.test, static_cast<std::size_t>(config_.train.eval_batch_size), communicator.rank(),
            communicator.size(), device),
      checkpoints_(folder_.checkpoints()),
      position_(samples_per_step(config_, communicator), loader_.steps_per_epoch()) {
  const RunSpec& config = config_;
  check_accumulation(config, *job.data.train);
  const MemoryLabel label("parameters, gradients and optimizer");
  network_.initialize(static_cast<std::uint64_t>(config.seed));
  const std::uint64_t steps_per_epoch = position_.steps_per_epoch();
  scheduled_steps_ = static_cast<std::uint64_t>(config.train.epochs) * steps_per_epoch;
  set_length();
  predicted_ = plan.bytes;
  optimizer_ = config.optimizer.entry().make(config.optimizer.settings, network_.arena());
  schedule_ = config.schedule.entry().make(config.schedule.settings,
                                           {config.optimizer.learning_rate, steps_per_epoch, scheduled_steps_});
  exchange_ = std::make_unique<exchange::GradientExchange>(config.rules, network_.arena(), communicator_);
  dump_ = std::make_unique<GradientDump>(folder_.gradients(), config.logging.dump_gradients, exchange_->dump_size());
  if (config.train.gradient_accumulation > 1) accumulated_ = Buffer<float>(network_.arena().size(), device);
  sample_.timers = StepTimers(communicator_.clock());
  begin_clock_at({});
  if (!config.compression.overlap || !plan.overlap_obstacle.empty()) return;
  overlapped_ = std::make_unique<OverlappedBackward>(communicator_, network_.arena(),
                                                     exchange::group_slices(exchange_->buckets(), exchange_->groups()),
                                                     [this](const layers::GradientReady& ready) { backward(ready); });
}

void Worker::set_length() {
  const std::uint64_t steps = position_.step_at(scheduled_steps_);
  const auto limit = static_cast<std::uint64_t>(config_.train.max_steps);
  total_steps_ = limit > 0 ? std::min(steps, limit) : steps;
}

int Worker::train() {
  StopSignals::training_begins();
  if (config_.compression.overlap && !overlapped_)
    warn("compression.overlap = true has no effect: " + plan_.overlap_obstacle);
  for (std::string& warning : config_warnings(config_)) warn(std::move(warning));
  for (const std::string& warning : data_warnings_) warn(warning);
  begin_traffic_check();
  if (communicator_.rank() == 0) {
    open_metrics();
    report_ =
        std::make_unique<ProgressReport>(ProgressReport::Run{.first_step = progress_.step,
                                                             .total_steps = total_steps_,
                                                             .total_epochs = config_.train.epochs,
                                                             .is_time_virtual = communicator_.clock().is_virtual(),
                                                             .overlaps = overlapped_ != nullptr});
  }
  if (config_.logging.trace > 0) {
    timeline_ = std::make_unique<StepTimeline>(config_.logging, progress_.step, communicator_, folder_.trace());
  }
  const std::uint64_t scheduled = position_.scheduled(progress_.step);
  loader_.seek(scheduled / position_.steps_per_epoch(), scheduled % position_.steps_per_epoch());
  while (progress_.step < total_steps_ && !is_out_of_patience()) {
    run_step();
    const ClockPause after_the_step(communicator_.clock());
    bool last = progress_.step == total_steps_;
    if (last || epoch_is_due(config_.train.eval_every_epochs)) evaluate_now();
    last = last || is_out_of_patience();
    const bool stop = !last && stop_requested_;
    if (timeline_) timeline_->end_step(progress_.step, last || stop);
    if (stop || last || checkpoint_is_due()) save_checkpoint();
    if (stop) {
      log::info(communicator_.rank(),
                "a signal stopped the run after step {}; a checkpoint is saved: --resume auto "
                "continues from it",
                progress_.step);
      return kExitRequeue;
    }
  }
  finish();
  return 0;
}

bool Worker::is_out_of_patience() const {
  const auto patience = static_cast<std::uint64_t>(config_.train.patience);
  return patience > 0 && progress_.evaluations_since_best >= patience;
}

const char* Worker::ended_by() const {
  if (progress_.step < total_steps_) return "patience";
  return total_steps_ < position_.step_at(scheduled_steps_) ? "max_steps" : "epochs";
}

bool Worker::checkpoint_is_due() const {
  const CheckpointConfig& checkpoint = config_.checkpoint;
  if (is_due(checkpoint.every_steps) || epoch_is_due(checkpoint.every_epochs)) return true;
  // The best parameters are kept only if they were saved while they were the current ones.
  const bool wanted = checkpoint.keep_best && (checkpoint.every_steps > 0 || checkpoint.every_epochs > 0);
  return wanted && progress_.best && progress_.best->step == progress_.step;
}

bool Worker::epoch_is_due(std::int64_t every) const {
  return every > 0 && position_.ends_epochs(progress_.step, static_cast<std::uint64_t>(every));
}

void Worker::run_step() {
  const double begin = communicator_.now();
  communicator_.set_label(fmt::format("step {}", progress_.step + 1));
  const comm::PhaseTraffic before = communicator_.traffic().by_phase();
  sample_.timers.reset();
  const double learning_rate = schedule_->learning_rate(position_.scheduled(progress_.step));

  const double density = density_at(config_.compression, position_.epoch(progress_.step), progress_.step);
  train_on_batch(learning_rate, density);
  ++progress_.step;
  progress_.samples += position_.samples_per_step();
  const ClockPause after_the_step(communicator_.clock());
  sample_.traffic = communicator_.traffic().by_phase() - before;
  progress_.density_sum += skipped_ ? 0.0 : mean_density(exchange_->counts());
  progress_.bytes_sent += static_cast<double>(exchange_traffic(sample_.traffic).bytes_sent);
  if (is_due(config_.train.replica_check_every)) {
    check_replicas(communicator_, parameters(), progress_.step);
  }
  check_traffic(density);
  progress_.step_seconds += communicator_.now() - begin;
  if (report_) report_->step(progress_.step, epochs_done(), samples_per_second(), sample_);
  if (is_due(config_.logging.every_steps) || progress_.step == total_steps_) {
    record_step(
        {.step = progress_.step, .epoch = epochs_done(), .learning_rate = learning_rate, .density_target = density});
  }
}

void Worker::train_on_batch(double learning_rate, double density) {
  const ScopedRecording recording =
      timeline_ ? timeline_->record(progress_.step + 1) : ScopedRecording(nullptr, communicator_.clock());
  const Span span(Track::kSteps, "step", {.step = static_cast<std::int64_t>(progress_.step) + 1});
  const data::Batch* batch = nullptr;
  exchange::run_verb({}, sample_.timers, Verb::kLoad, [&] { batch = &loader_.next(); });
  const layers::LossResult loss = forward_backward(*batch);
  sample_.loss_sum = loss.loss_sum;
  sample_.count = loss.count;
  skipped_ = !update(learning_rate, density);
}

bool Worker::update(double learning_rate, double density) {
  const bool may_skip = config_.train.non_finite == NonFinite::kSkip;
  if (may_skip) {
    // A failure in the exchange before is reported now, so that one word per step is enough.
    const exchange::StepWord agreed = agree_on_step(
        {.skip = !std::isfinite(optim::squared_norm(gradient())), .non_finite_bucket = exchange_->non_finite_bucket()},
        progress_.step);
    if (agreed.skip) {
      log::warning(communicator_.rank(), "step {}: a worker's gradient is not finite: all workers skip the step",
                   progress_.step + 1);
      return false;
    }
  }
  const float micro_batches = static_cast<float>(config_.train.gradient_accumulation);
  const auto sums = exchange({.step = progress_.step,
                              .density = density,
                              .learning_rate = learning_rate,
                              .gradient_scale = local_clip() / micro_batches,
                              .accumulated = dump_->target(progress_.step + 1)});
  if (!may_skip) agree_on_step({.non_finite_bucket = exchange_->non_finite_bucket()}, progress_.step + 1);
  exchange_->commit(sample_.timers);
  {
    const ClockPause pause(communicator_.clock());
    dump_->write(communicator_, progress_.step + 1);
  }
  apply_update(sums, learning_rate);
  return true;
}

exchange::StepWord Worker::agree_on_step(exchange::StepWord mine, std::uint64_t exchanged) {
  fault_point("agree");
  mine.stop = StopSignals::received() != 0;
  exchange::StepWord agreed;
  exchange::run_verb({}, sample_.timers, Verb::kExchange,
                     [&] { agreed = exchange::reduce_step_word(communicator_, mine); });
  exchange::check_finite(agreed, exchanged, exchange_->buckets());
  stop_requested_ = agreed.stop;
  return agreed;
}

layers::LossResult Worker::forward_backward(const data::Batch& batch) {
  const MemoryLabel label(kPassLabel);
  const std::size_t micro_batches = static_cast<std::size_t>(config_.train.gradient_accumulation);
  if (batch.begins) network_.reset_state(layers::Mode::kTrain);
  if (micro_batches > 1) kernels::fill(0.0f, accumulated_.view());
  layers::LossResult sum;
  for (std::size_t micro = 0; micro < micro_batches; ++micro) {
    exchange::run_verb(device(), sample_.timers, Verb::kForward, [&] {
      const layers::LossResult loss = network_.forward(micro_batch(batch, micro, micro_batches), layers::Mode::kTrain,
                                                       progress_.step * micro_batches + micro, communicator_.rank());
      sum.loss_sum += loss.loss_sum;
      sum.count += loss.count;
    });
    if (overlapped_ && micro + 1 == micro_batches) {
      overlapped_->start();
      continue;
    }
    exchange::run_verb(device(), sample_.timers, Verb::kBackward, [&] { backward({}); });
  }
  return sum;
}

void Worker::backward(const layers::GradientReady& ready) {
  const MemoryLabel label(kPassLabel);
  const bool accumulates = config_.train.gradient_accumulation > 1;
  if (!ready || !accumulates) {
    network_.backward(ready);
    if (accumulates) kernels::add(accumulated_.view(), network_.arena().gradients(), accumulated_.view());
  } else {
    network_.backward([&](ParameterId parameter) {
      accumulate(parameter);
      kernels::synchronize(device());  // whoever is told reads in another thread's order
      ready(parameter);
    });
  }
  if (ready) kernels::synchronize(device());  // the next forward is in another order, too
}

void Worker::accumulate(ParameterId parameter) {
  const View<const float> gradient = network_.arena().gradient(parameter);
  const View<float> sum = accumulated_.view().subview(network_.arena()[parameter].offset, gradient.size());
  kernels::add(sum, gradient, sum);
}

std::span<const exchange::BucketSum> Worker::exchange(const exchange::ExchangeStep& step) {
  const auto sums = exchange_->run(step, gradient(), sample_.timers, overlapped_.get());
  if (overlapped_) overlapped_->finish(sample_.timers);
  return sums;
}

View<const float> Worker::gradient() const {
  return config_.train.gradient_accumulation > 1 ? accumulated_.view() : network_.arena().gradients();
}

float Worker::local_clip() {
  const Clip clip = config_.train.clip;
  if (clip != Clip::kLocal && clip != Clip::kLocalSqrtWorkers) return 1.0f;
  // The accumulated gradient is a sum over micro-batches; their mean is clipped.
  const double norm =
      std::sqrt(optim::squared_norm(gradient())) / static_cast<double>(config_.train.gradient_accumulation);
  const int world_size = clip == Clip::kLocal ? 1 : communicator_.size();
  return optim::local_clip_scale(norm, config_.train.clip_norm, world_size);
}

void Worker::apply_update(std::span<const exchange::BucketSum> sums, double learning_rate) {
  const int ranks = communicator_.size();
  float scale = 1.0f;
  if (config_.train.clip == Clip::kGlobal)
    scale = optim::clip_scale(mean_gradient_norm(sums, ranks), config_.train.clip_norm);
  optimizer_->begin_step(learning_rate, progress_.step);
  exchange::run_verb(device(), sample_.timers, Verb::kOptimize,
                     [&] { apply_sums(sums, scale / static_cast<float>(ranks), *optimizer_); });
}

void Worker::open_metrics() {
  std::unique_ptr<EventFile> events;
  if (config_.logging.tensorboard) {
    const std::uint64_t first_step = progress_.step + 1;
    events = std::make_unique<EventFile>(folder_.path, first_step);
    events->write_text(first_step, "config", "```toml\n" + to_toml(config_) + "```\n");
  }
  metrics_ = std::make_unique<MetricsWriter>(folder_.metrics(), progress_.step, time_kind(), std::move(events));
}

void Worker::record_step(StepRecord record) {
  const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kMetrics);
  sample_.lists = skipped_ ? comm::ListCounts{} : exchange_->counts().lists;
  sample_.residual_norm = config_.compression.is_dense() ? std::nan("") : exchange_->residual_norm();
  reduce_step(communicator_, sample_, record);
  // Nothing was exchanged in a step that was skipped.
  record.counts = skipped_ ? exchange::ExchangeCounts{} : exchange_->counts();
  record.bytes_sent_total = bytes_sent_by_all() / communicator_.size();
  record.time = run_time();
  warn_if_traffic_exceeds_dense(record);
  warn_if_not_repeated();
  if (communicator_.rank() != 0) return;
  metrics_->write(record);
  report_->record(record);
}

void Worker::record_residuals() {
  if (!config_.logging.tensorboard) return;
  const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kMetrics);
  MagnitudeCounts magnitudes;
  kernels::HostMirror<float> residual;
  for (std::size_t bucket = 0; bucket < exchange_->buckets().size(); ++bucket) {
    magnitudes.add(residual.of(exchange_->memory(bucket).residual()));
  }
  communicator_.allreduce_sum(magnitudes.counts());
  if (metrics_) metrics_->write_residual(progress_.step, magnitudes);
}

TimeKind Worker::time_kind() const {
  return communicator_.clock().is_virtual() ? TimeKind::kVirtual : TimeKind::kWall;
}

void Worker::begin_clock_at(Moment time) {
  communicator_.clock().advance_to(time);
  const Moment now = communicator_.clock().moment();
  clock_offset_ = {time.seconds - now.seconds, time.ideal - now.ideal};
}

Moment Worker::elapsed() const {
  const Moment now = communicator_.clock().moment();
  return {now.seconds + clock_offset_.seconds, now.ideal + clock_offset_.ideal};
}

/// Collective. Returns the time since the run began: rank 0's wall time, or the virtual time of the rank that is
/// farthest.
Moment Worker::run_time() {
  // A virtual clock has run since the run began, also that of a resumed run.
  return time_kind() == TimeKind::kVirtual ? comm::latest_moment(communicator_) : elapsed();
}

void Worker::warn_if_traffic_exceeds_dense(const StepRecord& record) {
  if (config_.compression.is_dense() || communicator_.size() == 1) return;
  if (progress_.dense_is_faster) return;
  const double dense = plan_.dense_cost.bytes_sent;
  // The first epochs of a density warm-up send more on purpose.
  const bool selects = config_.compression.selects();
  const bool warming_up = selects && record.density_target > config_.compression.density;
  if (warming_up || record.exchanged.bytes_sent.mean <= dense) return;
  progress_.dense_is_faster = true;
  const std::string at = selects ? fmt::format(" at density {}", record.density_target) : "";
  warn(fmt::format(
      "step {}: '{}'{} sends {:.0f} bytes per worker and step with {} workers; a dense allreduce sends {:.0f}: "
      "dense is faster on any network",
      record.step, config_.compression.method, at, record.exchanged.bytes_sent.mean, communicator_.size(), dense));
}

void Worker::warn_if_not_repeated() {
  const std::string obstacle = network_.repetition_obstacle();
  if (obstacle.empty()) return;
  std::string warning = "device_graphs = true has no effect on some passes: " + obstacle;
  if (!std::ranges::count(progress_.warnings, warning)) warn(std::move(warning));
}

void Worker::warn(std::string warning) {
  if (communicator_.rank() == 0) log::warning(0, "{}", warning);
  // A resumed run may have to warn again.
  if (!std::ranges::count(progress_.warnings, warning)) progress_.warnings.push_back(std::move(warning));
}

double Worker::bytes_sent_by_all() {
  double bytes = progress_.bytes_sent;
  communicator_.allreduce_sum(std::span<double>(&bytes, 1));
  return bytes;
}

double Worker::samples_per_second() const {
  return progress_.step_seconds > 0 ? static_cast<double>(progress_.samples) / progress_.step_seconds : 0.0;
}

void Worker::evaluate_now() {
  fault_point("evaluate");
  const AveragedStatistics averaged(communicator_, network_);
  const EvaluationResult result = evaluate(communicator_, network_, test_);
  const EvalRecord record{.step = progress_.step,
                          .epoch = epochs_done(),
                          .loss = result.loss,
                          .qualities = result.qualities,
                          .time = run_time()};
  progress_.last = record;
  // The one at a limit in steps does not count: a run that goes on from there would not have made it.
  if (epoch_is_due(config_.train.eval_every_epochs)) ++progress_.evaluations_since_best;
  if (!progress_.best || is_better(record, *progress_.best)) {
    progress_.best = record;
    progress_.evaluations_since_best = 0;
  }
  schedule_->observe(record.loss);
  record_residuals();
  if (communicator_.rank() != 0) return;
  metrics_->write(record);
  log::info(0, "epoch {:.4g}/{}  step {}/{}  test loss {:.4f}  {}  (best {})  {:.0f} samples/s{}", record.epoch,
            config_.train.epochs, record.step, total_steps_, record.loss, describe(record.qualities.front()),
            describe_value(progress_.best->qualities.front()), samples_per_second(),
            time_kind() == TimeKind::kVirtual ? " (virtual)" : "");
  if (is_out_of_patience() && record.step < total_steps_) {
    log::info(
        0, "the run ends after step {}: {} evaluations have not improved on {} at epoch {:.4g} (train.patience = {})",
        record.step, progress_.evaluations_since_best, describe(progress_.best->qualities.front()),
        progress_.best->epoch, config_.train.patience);
  }
}

void Worker::finish() {
  const ClockPause pause(communicator_.clock());
  fault_point("finish");
  const std::uint64_t hash = check_replicas(communicator_, parameters(), progress_.step);
  const double bytes_sent = bytes_sent_by_all();
  const Moment time = run_time();
  comm::rank_zero_or_none(communicator_, [&] {
    const std::uint64_t steps = std::max<std::uint64_t>(progress_.step, 1);
    const double density = density_at(config_.compression, position_.epoch(steps - 1), steps - 1);
    const std::size_t sparse = exchange_->sparse_tensors(density);
    const Summary summary{.final_eval = progress_.last,
                          .best_eval = progress_.best,
                          .steps = progress_.step,
                          .ended_by = ended_by(),
                          .seconds_total = time.seconds,
                          .network = time_kind() == TimeKind::kVirtual ? std::optional(config_.network) : std::nullopt,
                          .throughput = samples_per_second(),
                          .bytes_sent_total = bytes_sent,
                          .predicted_bytes = predicted_,
                          .density_mean = progress_.density_sum / static_cast<double>(steps),
                          .tensors_sparse = sparse,
                          .tensors_dense = network_.arena().parameters().size() - sparse,
                          .world_size = communicator_.size(),
                          .backend = comm::backend_name(communicator_),
                          .device = this->device().is_cpu() ? "cpu" : "cuda",
                          .parameters_hash = hash_text(hash),
                          .config_hash = config_hash(config_),
                          .warnings = progress_.warnings};
    write_summary(folder_.summary(), summary);
    record_backward();
    log_final_report(summary, {.folder = folder_.path,
                               .times = report_->times(),
                               .first_step = report_->first_step(),
                               .wall_seconds = report_->wall_seconds(),
                               .dense_bytes = plan_.dense_cost.bytes_sent,
                               .is_dense = config_.compression.is_dense()});
  });
}

}  // namespace dragonn::trainer

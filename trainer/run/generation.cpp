// SPDX-License-Identifier: MIT
#include "trainer/run/generation.h"

#include <algorithm>

#include "comm/agreement.h"
#include "core/memory_ledger.h"
#include "exchange/run_part.h"
#include "kernels/nn/elementwise.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/described_time.h"
#include "trainer/run/evaluation.h"

namespace dragonn::trainer {
namespace {

/// The label of memory for passes through the network, for the error when it runs out.
constexpr const char* kPassLabel = "activations and workspace";
constexpr const char* kSelection = "tensor_selection";
/// Backward takes twice as many products as forward.
constexpr double kForwardShare = 1.0 / 3;

/// Returns part `micro` of `micro_batches` equal ones. More than one is refused if samples have lists of labels or
/// continue from batch to batch.
layers::NetworkBatch micro_batch(const data::Batch& batch, std::size_t micro, std::size_t micro_batches) {
  layers::NetworkBatch part = network_batch(batch);
  if (micro_batches == 1) return part;
  part.size = batch.count / micro_batches;
  part.inputs = part.inputs.subview(micro * part.size * batch.sample_size, part.size * batch.sample_size);
  part.targets.labels = part.targets.labels.subview(micro * part.size, part.size);
  return part;
}

}  // namespace

data::BatchRules batch_rules(const Config& config, int rank, int world) {
  return {.batch = static_cast<std::size_t>(config.train.batch_size * config.train.gradient_accumulation),
          .seed = static_cast<std::uint64_t>(config.seed),
          .rank = rank,
          .world = world,
          .remainder = config.train.remainder};
}

std::uint64_t steps_per_epoch(const Config& config, const data::Dataset& train, int world) {
  return train.training(batch_rules(config, 0, world))->steps_per_epoch();
}

Generation::Generation(const Job& job, const RunPlan& plan, TrainingState& trained, comm::Communicator& group)
    : config(job.config),
      steps_per_exchange(config.update.steps_per_exchange()),
      state(trained),
      communicator(group),
      loader(job.data.train, batch_rules(config, group.rank(), group.size()), state.device()),
      test(job.data.test, static_cast<std::size_t>(config.train.eval_batch_size), group.rank(), group.size(),
           state.device()) {
  require(config.train.gradient_accumulation == 1 || job.data.train->target_kind() == TargetKind::kClass,
          "train.gradient_accumulation = {}: it must be 1 for data '{}', whose samples do not have one class each",
          config.train.gradient_accumulation, config.data.name);
  const MemoryLabel label("parameters, gradients and optimizer");
  const data::BatchRules rules = batch_rules(config, group.rank(), group.size());
  state.batch_size = static_cast<std::size_t>(config.train.batch_size);
  state.lay_out(rules.batch * static_cast<std::uint64_t>(rules.world), loader.steps_per_epoch());
  ParameterArena& arena = state.network.arena();
  gradient_exchange = std::make_unique<exchange::GradientExchange>(plan.rules, arena, communicator);
  scheme = config.update.scheme.entry().make(config.update.scheme.settings, arena);
  if (config.train.gradient_accumulation > 1) accumulated_ = Buffer<float>(arena.size(), state.device());
  sample.timers = StepTimers(communicator.clock());
  begin_clock_at({});
  if (config.network.step_ms > 0) {
    const std::vector<layers::LayerSummary> layers = state.network.summary();
    for (const Parameter& parameter : arena.parameters()) {
      const exchange::Bucket alone{.name = parameter.name};
      done_when_final_.push_back(ready_shares(layers, {&alone, 1}).front());
    }
  }
  const bool overlaps = config.compression.overlap && plan.overlap_obstacle.empty();
  if (overlaps || config.update.traits().overlap_steps > 0)
    compute_thread = std::make_unique<ComputeThread>(communicator);
  if (!overlaps) return;
  overlapped = std::make_unique<OverlappedBackward>(
      *compute_thread, arena, exchange::group_slices(gradient_exchange->buckets(), gradient_exchange->groups()),
      [this](const layers::GradientReady& ready) { backward(ready); });
}

DataPosition Generation::reshard_from(StateSource& source) {
  const int rank = communicator.rank(), size = communicator.size();
  const UpdateSchemeEntry& entry = config.update.scheme.entry();
  const auto continue_epoch = [this](std::uint64_t epoch, std::span<const data::EpochPart> earlier) {
    return loader.continue_epoch(epoch, earlier);
  };
  const auto load_optimizer = [&](const Archive& own) {
    if (!source.leaves_values()) state.load_optimizer(source.model(), own);
  };
  DataPosition stopped = state.reshard_from(source, size, continue_epoch);
  scheme->load_shared(source.model(), kScheme);
  const comm::Nodes saved_nodes = exchange::saved_nodes(source.model(), source.workers());
  const bool has_levels = saved_nodes.most() > 1 || gradient_exchange->nodes().most() > 1;
  if (has_levels && saved_nodes != gradient_exchange->nodes()) {
    for (const auto& [saved, what] : gradient_exchange->ranks_to_take(saved_nodes))
      gradient_exchange->reshard_from(source.rank(saved), what);
  }
  if (source.has_same_ranks(size)) {
    const Archive& own = source.rank(rank);
    load_optimizer(own);
    if (saved_nodes == gradient_exchange->nodes()) gradient_exchange->load(own);
    scheme->load(own, kScheme);
    state.load_rank(own, stopped, continue_epoch);
    if (source.model().contains(kSelection))
      selection = parse_selection(source.model().get_text(kSelection), source.name());
  } else {
    for (const auto& [saved, what] : source.ranks_to_take(rank, size)) {
      const Archive& archive = source.rank(saved);
      if (!has_levels) gradient_exchange->reshard_from(archive, what);
      if (what.methods) load_optimizer(archive);
      if (exchange::reshards(exchange::part_name(entry), entry.resize, archive, kScheme))
        scheme->reshard_from(archive, kScheme, what);
      state.add_rank(archive, what);
    }
  }
  begin_clock_at(state.progress.time);
  return stopped;
}

void Generation::save(Archive* model, Archive& rank, std::span<const float> mean_statistics) {
  gradient_exchange->save(rank);
  scheme->save(rank, kScheme);
  state.save_rank(rank);
  if (model != nullptr) save_model(*model, mean_statistics);
}

void Generation::save_model(Archive& model, std::span<const float> mean_statistics) {
  state.save_values(model, model_parameters());
  save_model_rest(model, mean_statistics);
}

void Generation::save_model_rest(Archive& model, std::span<const float> mean_statistics) {
  state.save_rest(model, mean_statistics);
  scheme->save_shared(model, kScheme);
  gradient_exchange->save_shared(model);
  // What was measured for an advice alone decides nothing: a resumed run measures it anew.
  if (selection && wants_costs(config, communicator.size())) model.put_text(kSelection, to_json(*selection));
}

bool Generation::stays_with_rank(const std::string& field) const {
  return gradient_exchange->is_residual(field) || field == kScheme + scheme->unsent_field();
}

bool Generation::ends_unsettled() const {
  return state.total_steps / steps_per_exchange <= exchange::unsettled_steps(config.rules, gradient_exchange->terms());
}

SelectionQuestion Generation::selection_question() const {
  SelectionQuestion question{
      .config = config,
      .buckets = gradient_exchange->buckets(),
      .densities = sparse_densities(config.compression, std::max(state.scheduled_steps, state.total_steps),
                                    state.position.steps_per_epoch(), steps_per_exchange),
      .world_size = communicator.size(),
      .device = state.device(),
      .ready = ready_shares(state.network.summary(), gradient_exchange->buckets()),
      .overlaps = overlapped != nullptr,
      .arena = &state.network.arena(),
      .layers = state.network.summary(),
      .native_is_tree = communicator.backend() != "mpi"};
  question.ask_between(gradient_exchange->nodes());
  if (ends_unsettled()) {
    question.counts = forecast_counts(config.rules, question.world_size, exchange::RunPart::kFirstSteps);
    question.counts_are_forecast = true;
  }
  return question;
}

void Generation::compute_gradient(std::uint64_t step, StepSample& of_step) {
  const data::Batch* batch = nullptr;
  exchange::run_part({}, of_step.timers, StepPart::kLoad, [&] { batch = &loader.next(); });
  const MemoryLabel label(kPassLabel);
  const auto micro_batches = static_cast<std::size_t>(config.train.gradient_accumulation);
  if (batch->begins) state.network.reset_state(layers::Mode::kTrain);
  if (micro_batches > 1) kernels::fill(0.0f, accumulated_.view());
  of_step.loss_sum = 0;
  of_step.count = 0;
  for (std::size_t micro = 0; micro < micro_batches; ++micro) {
    exchange::run_part(state.device(), of_step.timers, StepPart::kForward, [&] {
      const DescribedTime time(clock_here(), described_seconds(kForwardShare));
      const layers::LossResult loss =
          state.network.forward(micro_batch(*batch, micro, micro_batches), layers::Mode::kTrain,
                                step * micro_batches + micro, communicator.rank());
      of_step.loss_sum += loss.loss_sum;
      of_step.count += loss.count;
    });
    if (overlapped && micro + 1 == micro_batches) {
      overlapped->start();
      continue;
    }
    exchange::run_part(state.device(), of_step.timers, StepPart::kBackward, [&] { backward({}); });
  }
}

void Generation::backward(const layers::GradientReady& ready) {
  const MemoryLabel label(kPassLabel);
  DescribedTime time(clock_here(), described_seconds(1 - kForwardShare));
  ParameterArena& arena = state.network.arena();
  const bool accumulates = accumulated_.size() > 0;
  if (!ready) {
    state.network.backward({});
    if (accumulates) kernels::add(accumulated_.view(), arena.gradients(), accumulated_.view());
    return;
  }
  const auto finish = [&](ParameterId parameter) {
    if (accumulates) {
      const View<const float> gradient = arena.gradient(parameter);
      const View<float> sum = accumulated_.view().subview(arena[parameter].offset, gradient.size());
      kernels::add(sum, gradient, sum);
      kernels::synchronize(state.device());  // whoever is told reads in another thread's order
    }
    if (!done_when_final_.empty()) time.reach(done_when_final_[parameter]);
    ready(parameter);
  };
  // It captures no more than std::function holds without allocating.
  state.network.backward([&finish](ParameterId parameter) { finish(parameter); });
  kernels::synchronize(state.device());  // the next forward is in another order, too
}

Clock& Generation::clock_here() {
  return compute_thread && compute_thread->is_this_thread() ? compute_thread->clock() : communicator.clock();
}

double Generation::described_seconds(double share) const {
  const double place = communicator.rank() / std::max(1.0, communicator.size() - 1.0);
  const double seconds = config.network.step_ms / 1e3 * (1 + place * (config.network.slowest - 1));
  return share * seconds / static_cast<double>(config.train.gradient_accumulation);
}

View<const float> Generation::gradient() const {
  return accumulated_.size() > 0 ? accumulated_.view() : state.network.arena().gradients();
}

std::span<const float> Generation::model_parameters() {
  const View<const float> shared = scheme->model_parameters();
  return shared.empty() ? state.parameters() : state.mirror.of(shared);
}

void Generation::begin_clock_at(Moment time) {
  communicator.clock().advance_to(time);
  const Moment now = communicator.clock().moment();
  clock_offset_ = {time.seconds - now.seconds, time.ideal - now.ideal};
}

Moment Generation::elapsed() const {
  const Moment now = communicator.clock().moment();
  return {now.seconds + clock_offset_.seconds, now.ideal + clock_offset_.ideal};
}

Moment Generation::run_time() const {
  // A virtual clock has run since the run began, also that of a resumed run.
  return is_virtual() ? comm::latest_moment(communicator) : elapsed();
}

double Generation::bytes_sent_by_all() const {
  double bytes = state.progress.bytes_sent;
  communicator.allreduce_sum(std::span<double>(&bytes, 1));
  return bytes;
}

}  // namespace dragonn::trainer

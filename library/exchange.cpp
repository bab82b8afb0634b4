// SPDX-License-Identifier: MIT
#include "library/exchange.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agreement.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/timeline.h"
#include "exchange/resize.h"
#include "exchange/step_agreement.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/exchange_config.h"

namespace dragonn::library {
namespace {

constexpr const char* kRank = "library/rank";
constexpr const char* kSize = "library/size";
constexpr const char* kConfig = "library/config";
constexpr const char* kTensors = "library/tensors";
constexpr const char* kExchanges = "library/exchanges";
constexpr const char* kLearningRate = "library/learning_rate";
constexpr const char* kStateName = "the saved state";

ParameterArena laid_out(const std::vector<Tensor>& tensors) {
  ParameterArena arena;
  for (const Tensor& tensor : tensors) arena.declare(tensor.name, tensor.shape, ParameterRole::kWeight);
  arena.lay_out();
  return arena;
}

std::uint64_t hash_of(const std::vector<Tensor>& tensors) {
  std::string text;
  for (const Tensor& tensor : tensors) text += fmt::format("{} {}\n", tensor.name, tensor.shape.to_string());
  return hash_bytes(std::as_bytes(std::span(text)));
}

/// Returns the tensors of a bucket, in their order in memory.
template <class Bucket>
std::span<const ParameterId> tensors_in(const ParameterArena& arena, const Bucket& bucket) {
  const auto offset_of = [&](ParameterId id) { return arena[id].offset; };
  const std::span<const ParameterId> all = arena.layout();
  const auto first = std::ranges::lower_bound(all, bucket.offset, {}, offset_of);
  return {first, std::ranges::lower_bound(first, all.end(), bucket.offset + bucket.size, {}, offset_of)};
}

/// A clock that stands still.
class PresetClock final : public Clock {
 public:
  explicit PresetClock(double seconds) : seconds_(seconds) {}
  Moment moment() const override { return {seconds_, seconds_}; }
  void set(double seconds) { seconds_ = seconds; }

 private:
  double seconds_;
};

/// Records what the caller's thread did meanwhile.
void record_backward(const StepParts& parts) {
  PresetClock clock(parts.begin());
  const ScopedRecording recording(this_recording().timeline, clock);
  const Span span(Track::kComputing, "backward");
  clock.set(parts.end());
}

std::shared_ptr<LocalSteps> make_local_steps(const trainer::RunSpec& spec, const ParameterArena& arena,
                                             const exchange::GradientExchange& exchange) {
  if (!spec.update.steps_locally()) return nullptr;
  return std::make_shared<LocalSteps>(spec.update.scheme.settings, arena, exchange);
}

}  // namespace

Exchange::Exchange(const trainer::RunSpec& spec, const std::vector<Tensor>& tensors, std::uint64_t steps_per_epoch,
                   const std::filesystem::path& trace, comm::Communicator& communicator)
    : spec_(spec),
      steps_per_epoch_(steps_per_epoch),
      communicator_(communicator),
      tensors_hash_(hash_of(tensors)),
      arena_(laid_out(tensors)),
      exchange_(std::make_unique<exchange::GradientExchange>(spec.rules, arena_, communicator)),
      local_steps_(make_local_steps(spec, arena_, *exchange_)),
      gradient_(arena_.size()),
      places_(exchange_->buckets().size()),
      timers_(communicator.clock()),
      learning_rate_(spec.optimizer.learning_rate) {
  if (!trace.empty()) timeline_ = std::make_unique<trainer::StepTimeline>(spec.logging, 0, communicator, trace);
}

void Exchange::check_same_on_all_ranks() const {
  const std::string config = trainer::config_hash(spec_);
  // Other settings of [logging] may differ: but that of a timeline is collective.
  const trainer::LoggingConfig& logging = spec_.logging;
  const std::string timeline = fmt::format("{} {} {}", logging.trace, logging.trace_first, logging.trace_mb);
  check_same(
      {hash_bytes(std::as_bytes(std::span(config))), tensors_hash_, hash_bytes(std::as_bytes(std::span(timeline)))},
      {"another config", "another list of tensors", "another logging.trace, trace_first or trace_mb"});
}

void Exchange::check_same(const std::vector<std::uint64_t>& mine, const std::vector<std::string>& what) const {
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(communicator_.size()));
  communicator_.allgather_values(std::span<const std::uint64_t>(mine), std::span<std::uint64_t>(all));
  constexpr int kBadConfig = 2;
  for (std::size_t rank = 1; rank < all.size() / mine.size(); ++rank) {
    for (std::size_t kind = 0; kind < mine.size(); ++kind) {
      if (all[kind] == all[rank * mine.size() + kind]) continue;
      throw comm::CollectiveError(
          fmt::format("rank {} has {} than rank 0: expected the same on every rank", rank, what[kind]), kBadConfig);
    }
  }
}

dragonn_tensor_info Exchange::info(std::size_t tensor) const {
  const Parameter& parameter = arena_[tensor];
  const auto& buckets = exchange_->buckets();
  const auto bucket = std::ranges::find_if(buckets, [&](const exchange::Bucket& candidate) {
    return parameter.offset >= candidate.offset && parameter.offset < candidate.offset + candidate.size;
  });
  DRAGONN_CHECK(bucket != buckets.end(), "no bucket holds tensor {}", parameter.name);
  const bool has_momentum = bucket->sparse && spec_.has_momentum() && spec_.compression.memory.entry().owns_momentum;
  return {.elements = parameter.size,
          .sparsified = bucket->sparse,
          .momentum_applied = has_momentum,
          .learning_rate_applied = bucket->sparse && spec_.rules.folded,
          .momentum = has_momentum ? spec_.rules.momentum : 0};
}

void Exchange::set_parts(std::span<const std::uint64_t> part_of) {
  const std::vector<exchange::Bucket>& buckets = exchange_->buckets();
  // By the part that completes a bucket, then by its place.
  std::map<std::uint64_t, std::vector<std::size_t>> completed;
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    std::uint64_t last = 0;
    for (const ParameterId id : tensors_in(arena_, buckets[index])) last = std::max(last, part_of[id]);
    completed[last].push_back(index);
  }
  groups_.clear();
  for (const auto& [part, indices] : completed) {
    for (std::size_t begin = 0, end = 0; begin < indices.size(); begin = end) {
      while (end < indices.size() && indices[end] - indices[begin] == end - begin) ++end;
      const std::size_t first = indices[begin];
      for (const exchange::BucketGroup& group :
           exchange::make_groups(std::span(buckets).subspan(first, end - begin), spec_.rules.fusion))
        groups_.push_back({first + group.begin, first + group.end});
    }
  }
  exchange_->regroup(groups_);
}

template <class Step>
void Exchange::collectively(const Step& step) {
  try {
    step();
  } catch (const NonFiniteError&) {
    throw;
  } catch (const CancelledError&) {
    throw;
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    // The other ranks are in the middle of this exchange: only the end of the group tells them.
    throw CommError(fmt::format("exchange {} failed on rank {}: {}", step_ + 1, communicator_.rank(), error.what()));
  }
}

template <class Gradients>
std::optional<ParameterId> Exchange::find_non_finite(const Gradients& gradients) const {
  const auto bad = std::ranges::find_if_not(arena_.layout(),
                                            [&](ParameterId id) { return gradients[id].are_finite(arena_[id].size); });
  return bad == arena_.layout().end() ? std::nullopt : std::optional(*bad);
}

template <class Gradients>
void Exchange::take(std::size_t bucket, const Gradients& gradients) {
  const exchange::Bucket& place = exchange_->buckets()[bucket];
  const std::span<const ParameterId> tensors = tensors_in(arena_, place);
  const auto* const first = static_cast<const float*>(gradients[tensors.front()].data);
  const bool lies_together = std::ranges::all_of(tensors, [&](ParameterId id) {
    return gradients[id].dtype == DRAGONN_FLOAT32 && gradients[id].data == first + (arena_[id].offset - place.offset);
  });
  places_[bucket] = lies_together ? View<const float>(first, place.size) : View<const float>();
  if (lies_together) return;
  for (const ParameterId id : tensors) gradients[id].read(slice(id));
}

void Exchange::run(std::span<const Numbers> gradients) {
  collectively([&] {
    average(
        [&](exchange::ExchangeStep step) {
          agree(find_non_finite(gradients), /*is_cancelled=*/false);
          for (std::size_t bucket = 0; bucket < places_.size(); ++bucket) take(bucket, gradients);
          step.gradients = places_;
          return exchange_->run(step, gradient_.view(), timers_);
        },
        gradients);
  });
}

/// Lets a group pass when its gradient is there. What is given up takes part as zeros, until the ranks agree.
class Exchange::Arrival final : public exchange::GroupGate {
 public:
  Arrival(Exchange& exchange, StepParts& parts) : exchange_(exchange), parts_(parts) {}

  void open(std::size_t group) override {
    const exchange::BucketGroup& buckets = exchange_.exchange_->groups()[group];
    for (std::size_t index = buckets.begin; index < buckets.end; ++index) {
      const std::span<const ParameterId> tensors = tensors_in(exchange_.arena_, exchange_.exchange_->buckets()[index]);
      if (wait_for(index, tensors)) {
        exchange_.take(index, parts_);
        continue;
      }
      exchange_.places_[index] = {};
      for (const ParameterId id : tensors) std::ranges::fill(exchange_.slice(id), 0.0f);
    }
  }
  void close(std::size_t) override {}

 private:
  bool wait_for(std::size_t bucket, std::span<const ParameterId> tensors) {
    const int number = static_cast<int>(bucket);
    const Span span(Track::kExchange, "wait for backward", {.first_bucket = number, .last_bucket = number});
    return parts_.wait_for(tensors);
  }

  Exchange& exchange_;
  StepParts& parts_;
};

void Exchange::run(StepParts& parts) {
  collectively([&] {
    average(
        [&](exchange::ExchangeStep step) {
          step.revertible = true;
          step.gradients = places_;
          Arrival arrival(*this, parts);
          const auto sums = exchange_->run(step, gradient_.view(), timers_, &arrival);
          record_backward(parts);
          // The exchange has seen whether sums are finite: the gradients are searched only if some are not.
          const bool is_cancelled = parts.is_cancelled();
          const bool may_be_bad = !is_cancelled && exchange_->non_finite_bucket();
          agree_or_revert(may_be_bad ? find_non_finite(parts) : std::nullopt, is_cancelled);
          return sums;
        },
        parts);
  });
}

void Exchange::start_local_steps(std::span<const Numbers> parameters) {
  local_steps_->start(parameters);
  check_same({local_steps_->common_hash()}, {"other parameters"});
}

void Exchange::take_turn(const LocalTurn& turn, std::span<const Numbers> parameters) {
  if (turn.arrives) local_steps_->give(*turn.arrives, turn.is_last, parameters);
  if (turn.part) change_ = local_steps_->take_change(*turn.part, parameters);
}

void Exchange::exchange_change(const LocalTurn& turn) {
  collectively([&] {
    exchange(
        next_step(turn.step, turn.step / local_steps_->round()),
        [&](exchange::ExchangeStep step) {
          local_steps_->clip(communicator_, *turn.part);
          step.groups = local_steps_->groups(*turn.part);
          step.revertible = true;
          const auto sums = exchange_->run(step, change_, timers_);
          const std::optional<std::size_t> bad = exchange_->non_finite_bucket();
          agree_or_revert(bad ? std::optional(tensors_in(arena_, exchange_->buckets()[*bad]).front()) : std::nullopt,
                          /*is_cancelled=*/false);
          return sums;
        },
        [&](std::span<const exchange::BucketSum> sums) { local_steps_->apply(turn, sums); });
  });
}

void Exchange::agree_or_revert(std::optional<ParameterId> bad, bool is_cancelled) {
  try {
    agree(bad, is_cancelled);
  } catch (...) {
    exchange_->revert();
    throw;
  }
}

exchange::ExchangeStep Exchange::next_step(std::uint64_t step, std::uint64_t exchanges) const {
  const double rate_share = learning_rate_ / spec_.optimizer.learning_rate;
  return {.step = step_,
          .density = trainer::density_at(spec_.compression, step / steps_per_epoch_, exchanges, 0, rate_share),
          .learning_rate = learning_rate_,
          .rate_share = rate_share};
}

template <class Sums, class Gradients>
void Exchange::average(const Sums& sums, const Gradients& gradients) {
  exchange(next_step(step_, step_), sums, [&](std::span<const exchange::BucketSum> means) {
    for (const exchange::BucketSum& mean : means) write_mean(mean, gradients);
  });
}

template <class Sums, class Apply>
void Exchange::exchange(const exchange::ExchangeStep& step, const Sums& sums, const Apply& apply) {
  const double begin = communicator_.now();
  const comm::PhaseTraffic before = communicator_.traffic().by_phase();
  timers_.reset();
  {
    const ScopedRecording recording =
        timeline_ ? timeline_->record(recorded_ + 1) : ScopedRecording(nullptr, communicator_.clock());
    const Span span(Track::kSteps, "exchange", {.step = static_cast<std::int64_t>(recorded_) + 1});
    const auto exchanged = sums(step);
    exchange_->commit(timers_);
    overflowed_ = exchange_->non_finite_bucket();
    apply(exchanged);
  }
  ++step_;
  ++recorded_;

  comm::Traffic traffic;
  for (const comm::Traffic& phase : communicator_.traffic().by_phase() - before) traffic += phase;
  const exchange::ExchangeCounts& counts = exchange_->counts();
  const auto seconds = [&](StepPart part) { return timers_.seconds(part); };
  last_ = {.exchanges = step_,
           .bytes_sent = traffic.bytes_sent,
           .bytes_received = traffic.bytes_received,
           .messages_sent = traffic.messages_sent,
           .elements = counts.numel,
           .entries_selected = counts.selected[static_cast<std::size_t>(communicator_.rank())],
           .entries_of_sum = counts.global,
           .density = step.density,
           .residual_norm = 0,
           .seconds = communicator_.now() - begin,
           .seconds_compensate = seconds(StepPart::kCompensate) + seconds(StepPart::kCompensateSelect),
           .seconds_select = seconds(StepPart::kSelect),
           .seconds_exchange = seconds(StepPart::kExchange),
           .seconds_decode = seconds(StepPart::kDecode),
           .seconds_settle = seconds(StepPart::kSettle)};
  end_trace();
}

void Exchange::end_trace() {
  if (!timeline_ || !timeline_->ends_in(recorded_)) return;
  try {
    timeline_->end_step(recorded_, /*is_last_of_run=*/false);
  } catch (const comm::CollectiveError& error) {  // on all ranks, and the exchange itself is done
    log::warning(communicator_.rank(), "the timeline of exchange {} is lost: {}", recorded_, error.what());
  }
  timeline_.reset();
}

template <class Gradients>
void Exchange::write_mean(const exchange::BucketSum& sum, const Gradients& gradients) const {
  const float scale = 1.0f / sum.divisor;
  for (const ParameterId id : tensors_in(arena_, sum)) {
    const std::size_t begin = arena_[id].offset - sum.offset, size = arena_[id].size;
    if (sum.entries == nullptr) {
      gradients[id].write(sum.dense.host().subspan(begin, size), scale);
      continue;
    }
    const auto indices = sum.entries->indices.host();
    const auto first = std::ranges::lower_bound(indices, begin) - indices.begin();
    const auto last = std::ranges::lower_bound(indices, begin + size) - indices.begin();
    const auto from = static_cast<std::size_t>(first), count = static_cast<std::size_t>(last - first);
    gradients[id].write({.indices = indices.subspan(from, count),
                         .values = sum.entries->values.host().subspan(from, count),
                         .begin = begin,
                         .size = size},
                        scale);
  }
}

/// It is the one agreement of a step (exchange/step_agreement.h), whose bit `stop` says that a rank gave the step up.
void Exchange::agree(std::optional<ParameterId> bad, bool is_cancelled) {
  const exchange::StepWord agreed = exchange::reduce_step_word(
      communicator_, {.stop = is_cancelled, .skip = bad.has_value(), .non_finite_bucket = overflowed_});
  if (agreed.non_finite_bucket) {
    throw NonFiniteError(
        fmt::format("exchange {}: the accumulated gradient of {} has overflowed on some rank: load a saved state",
                    step_, exchange_->buckets().at(*agreed.non_finite_bucket).name));
  }
  constexpr const char* kAsBefore = "nothing is exchanged, and all gradients and residuals are as before";
  if (agreed.stop) {
    throw CancelledError(fmt::format("exchange {}: {} gave up the step: {}", step_ + 1,
                                     is_cancelled ? fmt::format("rank {}", communicator_.rank()) : "another rank",
                                     kAsBefore));
  }
  if (!agreed.skip) return;
  const std::string where =
      bad ? fmt::format("of {} on rank {}", arena_[*bad].name, communicator_.rank()) : "of another rank";
  throw NonFiniteError(
      fmt::format("exchange {}: the gradient {} holds NaN or infinity: {}", step_ + 1, where, kAsBefore));
}

dragonn_statistics Exchange::statistics() const {
  dragonn_statistics statistics = last_;
  statistics.exchanges = step_;
  statistics.residual_norm = exchange_->residual_norm();
  return statistics;
}

std::vector<std::byte> Exchange::save() const {
  Archive archive;
  archive.put(kRank, static_cast<std::uint64_t>(communicator_.rank()));
  archive.put(kSize, static_cast<std::uint64_t>(communicator_.size()));
  archive.put_text(kConfig, trainer::to_toml(spec_));
  archive.put(kTensors, tensors_hash_);
  archive.put(kExchanges, step_);
  archive.put(kLearningRate, learning_rate_);
  exchange_->save(archive);
  if (local_steps_) local_steps_->save(archive);
  return to_bytes(archive);
}

Archive Exchange::read_state(std::span<const std::byte> state, int rank, int size) const {
  Archive archive = archive_from_bytes(state, fmt::format("the state of rank {}", rank));
  const auto saved_rank = archive.get<std::uint64_t>(kRank), saved_size = archive.get<std::uint64_t>(kSize);
  if (saved_rank != static_cast<std::uint64_t>(rank) || saved_size != static_cast<std::uint64_t>(size)) {
    throw DataError(fmt::format("it is of rank {} of {}: expected rank {} of {}", saved_rank, saved_size, rank, size));
  }
  const trainer::Config config =
      trainer::resolve_config(trainer::read_toml(archive.get_text(kConfig), kStateName), {}, /*complete=*/false);
  const std::vector<std::string> changes = trainer::config_changes(config, spec_);
  if (!changes.empty()) throw DataError(fmt::format("it is of another config: {}", fmt::join(changes, ", ")));
  if (archive.get<std::uint64_t>(kTensors) != tensors_hash_) {
    throw DataError("it is of another list of tensors: expected the same names and shapes");
  }
  return archive;
}

template <class Fill>
void Exchange::continue_with(std::span<const std::byte> first, int rank, int size, const Fill& fill) {
  try {
    const Archive state = read_state(first, rank, size);
    auto exchange = std::make_unique<exchange::GradientExchange>(spec_.rules, arena_, communicator_);
    fill(*exchange, state);
    std::shared_ptr<LocalSteps> local_steps = make_local_steps(spec_, arena_, *exchange);
    if (local_steps) local_steps->load(state);
    if (!std::isfinite(exchange->residual_norm())) {
      throw DataError("it holds NaN or infinity: expected a state from before the gradient overflowed");
    }
    const auto step = state.get<std::uint64_t>(kExchanges);
    const auto learning_rate = state.get<double>(kLearningRate);
    // Only now, when nothing can fail any more, this exchange changes.
    exchange_ = std::move(exchange);
    local_steps_ = std::move(local_steps);
    if (!groups_.empty()) exchange_->regroup(groups_);
    step_ = step;
    learning_rate_ = learning_rate;
    overflowed_.reset();
    last_ = {};
  } catch (const Error& error) {
    throw DataError(fmt::format("{} is refused: {}", kStateName, error.what()));
  }
}

void Exchange::load(std::span<const std::byte> state) {
  continue_with(state, communicator_.rank(), communicator_.size(),
                [](exchange::GradientExchange& exchange, const Archive& own) { exchange.load(own); });
}

void Exchange::load_all(std::span<const std::span<const std::byte>> states) {
  const int rank = communicator_.rank(), size = communicator_.size(), saved = static_cast<int>(states.size());
  if (saved == size) return load(states[static_cast<std::size_t>(rank)]);
  continue_with(states.front(), 0, saved, [&](exchange::GradientExchange& exchange, const Archive& first) {
    for (const auto& [from, what] : exchange::ranks_to_take(rank, size, saved)) {
      std::optional<Archive> other;
      if (from != 0) other = read_state(states[static_cast<std::size_t>(from)], from, saved);
      const Archive& state = other ? *other : first;
      if (state.get<std::uint64_t>(kExchanges) != first.get<std::uint64_t>(kExchanges)) {
        throw DataError(fmt::format("those of ranks 0 and {} are from after different exchanges", from));
      }
      exchange.reshard_from(state, what);
    }
  });
}

}  // namespace dragonn::library

// SPDX-License-Identifier: MIT
#include "exchange/gradient_exchange.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "comm/sparse/sparse_collective.h"
#include "compress/dct_basis.h"
#include "compress/tiles.h"
#include "core/memory_ledger.h"
#include "exchange/node_sums.h"
#include "kernels/devices.h"
#include "kernels/gradient/exceedance.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::exchange {
namespace {

/// The label of memory that the exchange holds besides its state, for the error when it runs out.
constexpr const char* kBufferLabel = "exchange buffers";

using compress::MemoryEntry;

/// Returns the entries of the exchanged sum. If a collective decodes into n floats, its non-zeros are counted.
std::size_t global_count(const comm::SparseReduction& reduction, std::size_t numel) {
  if (!reduction.is_dense) return reduction.sum.size();
  if (reduction.contributed_all) return numel;
  return kernels::exceedances(reduction.dense_sum.view(), 0.0f).count;
}

/// Sets the label of the exchange for errors: "step 12, bucket 3". Steps count from 1, as in logs and metrics.
void set_label(comm::Communicator& communicator, std::uint64_t step, const BucketGroup& group = {}) {
  std::array<char, comm::Activity::kLongestLabel> text;
  char* end = fmt::format_to_n(text.begin(), text.size(), "step {}", step + 1).out;
  const std::size_t buckets = group.end - group.begin;
  if (buckets == 1) end = fmt::format_to_n(end, text.end() - end, ", bucket {}", group.begin).out;
  if (buckets > 1) end = fmt::format_to_n(end, text.end() - end, ", buckets {} to {}", group.begin, group.end - 1).out;
  communicator.set_label({text.begin(), end});
}

/// Returns what a timeline says of a verb of one bucket, and of one of a group.
SpanDetail detail_of(std::size_t index, const Bucket& bucket) {
  return {
      .first_bucket = static_cast<int>(index), .last_bucket = static_cast<int>(index), .tensors = bucket.name.c_str()};
}
SpanDetail detail_of(const BucketGroup& group) {
  return {.first_bucket = static_cast<int>(group.begin), .last_bucket = static_cast<int>(group.end) - 1};
}

}  // namespace

GradientExchange::GradientExchange(const ExchangeRules& rules, const ParameterArena& arena,
                                   comm::Communicator& communicator)
    : rules_(rules),
      device_(arena.gradients().device()),
      times_(device_),
      buckets_(make_buckets(arena, rules.buckets)),
      node_sums_(rules.nodes ? std::make_unique<NodeSums>(*rules.nodes, buckets_, device_, communicator) : nullptr),
      communicator_(node_sums_ ? node_sums_->across() : communicator),
      groups_(make_groups(buckets_, rules.fusion)),
      transport_(comm::make_list_transport(communicator_, rules.coding)) {
  check_rules(rules_);
  counts_.selected.resize(static_cast<std::size_t>(senders_of(rules_, communicator.size())));
  if (rules_.selects()) selection_ = exchanged_selection(rules_);
  states_.reserve(buckets_.size());
  const MemoryPlace messages = communicator_.device_transport() != nullptr ? device_ : host_memory_for(device_);
  for (const Bucket& bucket : buckets_) make_state(bucket, messages);
  std::size_t offset = 0;
  for (std::size_t index = 0; index < states_.size(); ++index) {
    states_[index].dump_offset = offset;
    if (is_dumped(index)) offset += buckets_[index].size;
  }
}

GradientExchange::~GradientExchange() = default;

void GradientExchange::make_state(const Bucket& bucket, const MemoryPlace& messages) {
  const bool quantizes = bucket.sparse && rules_.quantizes();
  any_sparse_ = any_sparse_ || (bucket.sparse && !quantizes);
  // Codes are decoded on the gradient's device.
  BucketState& state = states_.emplace_back(device_, quantizes ? MemoryPlace(device_) : messages);
  const MemoryEntry& entry = memory_of(bucket);
  state.sum = {.offset = bucket.offset,
               .size = bucket.size,
               .momentum_applied = entry.owns_momentum,
               .learning_rate_applied = bucket.sparse && rules_.folded};
  if (node_sums_ && !node_sums_->has(states_.size() - 1)) return;
  {
    const MemoryLabel label("error feedback");
    const bool is_configured = entry.name == rules_.memory.name;
    state.memory = entry.make(is_configured ? rules_.memory.settings : Settings(entry.settings), bucket.size,
                              rules_.momentum, rules_.nesterov, device_);
    if (rules_.dct && bucket.sparse)
      state.memory = compress::in_dct_basis(std::move(state.memory), bucket.size, bucket.tensors,
                                            compress::chunk_of(rules_.sparsifier.settings), device_);
  }
  const MemoryLabel label(kBufferLabel);
  const BucketPlace place{bucket.size, device_, messages};
  state.dense = make_dense_form(rules_.dense, place);
  if (!bucket.sparse) return;
  state.compressed = quantizes ? make_quantized_form(rules_.quantizer, place)
                               : make_sparse_form(rules_.sparsifier, rules_.collective, place);
}

const MemoryEntry& GradientExchange::memory_of(const Bucket& bucket) const {
  // Dense buckets keep no residual, unless their sums are rounded: nothing stays behind.
  const bool leaves = bucket.sparse || rules_.codes_dense();
  return leaves ? memory_entry(rules_) : Registry<MemoryEntry>::instance().at("none");
}

std::size_t GradientExchange::dump_size() const {
  std::size_t size = 0;
  for (std::size_t index = 0; index < buckets_.size(); ++index) size += is_dumped(index) ? buckets_[index].size : 0;
  return size;
}

bool GradientExchange::is_sparse(std::size_t index, double density) const {
  if (!buckets_[index].sparse || choices_.empty() || density >= 1) return buckets_[index].sparse;
  const auto choice = std::ranges::find(choices_, density, &BucketChoice::density);
  DRAGONN_CHECK(choice != choices_.end(), "no tensors were selected for density {}", density);
  return choice->is_sparse[index];
}

std::size_t GradientExchange::sparse_tensors(double density) const {
  std::size_t tensors = 0;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const Bucket& bucket = buckets_[index];
    if (is_sparse(index, density) && target_of(rules_, bucket, density) < bucket.size) tensors += bucket.tensors.size();
  }
  return tensors;
}

void GradientExchange::regroup(std::vector<BucketGroup> groups) {
  std::size_t buckets = 0;
  for (const BucketGroup& group : groups) buckets += group.end - group.begin;
  DRAGONN_CHECK(!is_open_ && buckets == buckets_.size(), "groups of {} buckets of {}", buckets, buckets_.size());
  groups_ = std::move(groups);
}

std::span<const BucketSum> GradientExchange::run(const ExchangeStep& step, View<const float> gradient,
                                                 StepTimers& timers, GroupGate* gate) {
  DRAGONN_CHECK(!is_open_, "the exchange before was neither committed nor abandoned");
  is_open_ = true;
  step_ = step;
  gradient_ = gradient;
  const auto is_chosen = [&](std::size_t group) {
    return step.groups.empty() || std::ranges::count(step.groups, group);
  };
  chosen_.clear();
  exchanged_.clear();
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    if (!is_chosen(group)) continue;
    for (std::size_t index = groups_[group].begin; index < groups_[group].end; ++index) {
      chosen_.push_back(index);
      if (has(index)) exchanged_.push_back(index);
      states_[index].is_handed_over = !node_sums_;
      states_[index].holds_gradient = false;
      states_[index].method_before = {};
    }
  }
  transport_->reset_counts();
  non_finite_bucket_.reset();
  const MemoryLabel label(kBufferLabel);
  times_.drop();  // of an exchange that ended in the middle
  // Without a gate all gradients are handed over first: the workers of a node then exchange at the same time.
  for (std::size_t group = 0; group < groups_.size() && gate == nullptr; ++group) {
    if (is_chosen(group)) hand_over(groups_[group], timers);
  }
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    if (!is_chosen(group)) continue;
    if (gate != nullptr) gate->open(group);
    if (gate != nullptr) hand_over(groups_[group], timers);
    set_label(communicator_, step.step, groups_[group]);
    run_group(groups_[group], timers);
    set_label(communicator_, step.step);
    if (gate == nullptr) continue;
    times_.collect(timers);
    gate->close(group);
  }
  sums_.clear();
  for (const std::size_t index : chosen_) {
    BucketSum& sum = sums_.emplace_back(states_[index].sum);
    if (!has(index)) continue;  // share_out() brings it
    const comm::SparseReduction& outcome = *states_[index].outcome;
    sum.divisor = states_[index].reduction.is_mean ? 1 : static_cast<float>(communicator_.size());
    if (outcome.is_dense) {
      sum.dense = outcome.dense_sum.view();
    } else {
      sum.entries = &outcome.sum;
    }
  }
  return sums_;
}

void GradientExchange::commit(StepTimers& timers) {
  DRAGONN_CHECK(is_open_, "there is no exchange to commit");
  std::ranges::fill(counts_.selected, std::uint64_t{0});
  counts_ = {.selected = std::move(counts_.selected),
             .lost_mass = std::numeric_limits<double>::quiet_NaN(),
             .lists = transport_->list_counts()};
  const MemoryLabel label(kBufferLabel);
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    if (has(chosen_[i])) settle(chosen_[i], sums_[i], timers);
  }
  share_out(timers);
  times_.collect(timers);
  counts_.threshold = thresholds().mean();
  share_counts();
  is_open_ = false;
}

void GradientExchange::hand_over(const BucketGroup& group, StepTimers& timers) {
  if (!node_sums_) return;
  set_label(communicator_, step_.step, group);
  times_.run(timers, StepPart::kExchange, detail_of(group),
             [&] { node_sums_->hand_over(group, own_gradients_of(group), step_.gradient_scale); });
  for (BucketState& state : states_of(group)) state.is_handed_over = true;
}

void GradientExchange::share_out(StepTimers& timers) {
  if (!node_sums_) return;
  std::vector<SharedSum> shared;
  for (std::size_t i = 0; i < chosen_.size(); ++i)
    shared.push_back({.bucket = chosen_[i], .sum = &sums_[i], .received = &states_[chosen_[i]].reduction});
  times_.run(timers, StepPart::kExchange, {}, [&] { node_sums_->share_out(shared); });
  for (const SharedSum& sum : shared) {
    BucketState& state = states_[sum.bucket];
    if (state.is_mine()) continue;
    const comm::SparseReduction& received = state.staging.to_device(state.reduction);
    if (received.is_dense) {
      sum.sum->dense = received.dense_sum.view();
    } else {
      sum.sum->entries = &received.sum;
    }
  }
}

/// Adds up what the workers of the node have counted of their buckets.
void GradientExchange::share_counts() {
  if (!node_sums_) return;
  const auto as_double = [](auto value) { return static_cast<double>(value); };
  const auto as_count = [](double value) { return static_cast<std::uint64_t>(value); };
  const Thresholds mine = thresholds();
  const bool loses = !std::isnan(counts_.lost_mass);
  std::vector<double> sums{as_double(counts_.numel),  counts_.target,           as_double(counts_.global),
                           as_double(counts_.padded), as_double(counts_.owned), as_double(counts_.owned_padded),
                           as_double(mine.sum),       as_double(mine.number),   loses ? counts_.lost_mass : 0,
                           loses ? 1.0 : 0.0};
  const std::size_t first_selected = sums.size();
  for (const std::uint64_t selected : counts_.selected) sums.push_back(as_double(selected));
  {
    const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kNode);
    node_sums_->inside().allreduce_sum(std::span<double>(sums));
  }
  counts_.numel = as_count(sums[0]);
  counts_.target = sums[1];
  counts_.global = as_count(sums[2]);
  counts_.padded = as_count(sums[3]);
  counts_.owned = as_count(sums[4]);
  counts_.owned_padded = as_count(sums[5]);
  counts_.threshold = Thresholds{static_cast<float>(sums[6]), as_count(sums[7])}.mean();
  counts_.lost_mass = sums[9] > 0 ? sums[8] : std::numeric_limits<double>::quiet_NaN();
  for (std::size_t rank = 0; rank < counts_.selected.size(); ++rank)
    counts_.selected[rank] = as_count(sums[first_selected + rank]);
}

comm::Nodes GradientExchange::nodes() const {
  return node_sums_ ? node_sums_->nodes() : comm::Nodes::of_size(communicator_.size(), 1);
}

void GradientExchange::abandon() {
  if (!is_open_) return;
  const MemoryLabel label(kBufferLabel);
  for (const std::size_t index : exchanged_) {
    BucketState& state = states_[index];
    if (!state.is_handed_over) continue;
    if (!state.holds_gradient) state.memory->compensate({}, gradient_of(index), scale_of(state));
    state.memory->abandon();
  }
  kernels::synchronize(device_);
  is_open_ = false;
}

void GradientExchange::revert() {
  if (!is_open_) return;
  DRAGONN_CHECK(step_.revertible, "the exchange is not revertible");
  kernels::synchronize(device_);
  for (const std::size_t index : exchanged_) {
    BucketState& state = states_[index];
    if (state.holds_gradient) state.memory->revert();
    if (!state.method_before.fields().empty()) state.compressed->load(state.method_before, "");
  }
  is_open_ = false;
}

void GradientExchange::run_group(const BucketGroup& group, StepTimers& timers) {
  for (std::size_t index = group.begin; index < group.end; ++index) {
    if (!has(index)) continue;
    BucketState& state = states_[index];
    if (step_.revertible && state.compressed) state.compressed->save(state.method_before, "");
    begin(index);
    compensate(index, timers);
  }
  finish_passes(group);
  share_proposals(group);
  for (std::size_t index = group.begin; index < group.end; ++index) {
    if (has(index)) select(index, timers);
  }
  if (step_.aligned) comm::align(communicator_);
  exchange(group, timers);
}

/// Chooses the form of this exchange.
void GradientExchange::begin(std::size_t index) {
  const Bucket& bucket = buckets_[index];
  BucketState& state = states_[index];
  // Some methods cut each tensor to know k: it is asked for once for every density.
  const double density = density_of(rules_, communicator_.rank(), step_.density);
  const bool is_known = state.select.k > 0 && state.select.density == density;
  const std::size_t k = is_known ? state.select.k : target_of(rules_, bucket, density);
  state.select = {.seed = rules_.seed,
                  .step = state.exchanges,
                  .rank = communicator_.rank(),
                  .world_size = communicator_.size(),
                  .bucket = static_cast<std::uint32_t>(index),
                  .density = density,
                  .k = k,
                  .learning_rate = state.sum.learning_rate_applied ? step_.learning_rate : 1.0,
                  .tensors = bucket.tensors};
  state.reduce = {.step = state.exchanges,
                  .k = state.select.k,
                  .density = step_.density,
                  .selection = selection_,
                  .averages_senders = rules_.averages_senders};
  // All ranks choose the same form, whatever their shares.
  const std::size_t common_k = rules_.shares.empty() ? k : target_of(rules_, bucket, step_.density);
  const bool compresses = is_sparse(index, step_.density) && !rules_.bypasses(common_k, bucket.size);
  state.form = compresses ? state.compressed.get() : state.dense.get();
  state.reduce.codes_dense = compresses || rules_.codes_dense();
}

float GradientExchange::scale_of(const BucketState& state) const {
  return (node_sums_ ? node_sums_->share() : step_.gradient_scale) *
         (state.sum.learning_rate_applied ? static_cast<float>(step_.learning_rate) : 1.0f);
}

View<const float> GradientExchange::gradient_of(std::size_t index) const {
  return node_sums_ ? node_sums_->sum(index) : own_gradient_of(index);
}

View<const float> GradientExchange::own_gradient_of(std::size_t index) const {
  if (!step_.gradients.empty() && !step_.gradients[index].empty()) return step_.gradients[index];
  return gradient_.subview(buckets_[index].offset, buckets_[index].size);
}

std::vector<View<const float>> GradientExchange::own_gradients_of(const BucketGroup& group) const {
  std::vector<View<const float>> gradients;
  for (std::size_t index = group.begin; index < group.end; ++index) gradients.push_back(own_gradient_of(index));
  return gradients;
}

void GradientExchange::compensate(std::size_t index, StepTimers& timers) {
  const Bucket& bucket = buckets_[index];
  BucketState& state = states_[index];
  kernels::PassRequest request = state.form->plan(state.select);
  request.deferred = true;
  request.revertible = step_.revertible;
  // If the pass selects, too, the two verbs are one.
  state.selects_in_pass = request.kind != kernels::PassRequest::Kind::kNone;
  times_.run(timers, state.selects_in_pass ? StepPart::kCompensateSelect : StepPart::kCompensate,
             detail_of(index, bucket),
             [&] { state.pass = &state.memory->compensate(request, gradient_of(index), scale_of(state)); });
  state.holds_gradient = true;
  if (step_.accumulated.empty() || !is_dumped(index)) return;
  kernels::copy(state.memory->accumulated(), step_.accumulated.subview(state.dump_offset, bucket.size));
}

void GradientExchange::finish_passes(const BucketGroup& group) {
  bool has_waited = false;
  for (std::size_t index = group.begin; index < group.end; ++index) {
    if (!has(index)) continue;
    kernels::PassResult& pass = *states_[index].pass;
    if (pass.unfinished != nullptr && !has_waited) kernels::synchronize(device_);
    has_waited = has_waited || pass.unfinished != nullptr;
    kernels::finish_pass(pass);
    if (pass.non_finite && !non_finite_bucket_) non_finite_bucket_ = index;
  }
}

void GradientExchange::share_proposals(const BucketGroup& group) {
  if (communicator_.size() == 1) return;
  proposals_.clear();
  proposing_.clear();
  for (BucketState& state : states_of(group)) {
    if (!state.is_mine()) continue;
    const std::optional<float> proposal = state.form->propose(state.select, state.memory->accumulated());
    if (!proposal) continue;
    proposals_.push_back(*proposal);
    proposing_.push_back(&state);
  }
  if (proposals_.empty()) return;
  const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kHeader);
  communicator_.broadcast(0, comm::Communicator::as_writable_bytes(std::span(proposals_)));
  for (std::size_t i = 0; i < proposals_.size(); ++i) proposing_[i]->form->accept_proposal(proposals_[i]);
}

void GradientExchange::select(std::size_t index, StepTimers& timers) {
  BucketState& state = states_[index];
  if (state.form == state.dense.get()) return;
  times_.run(timers, state.selects_in_pass ? StepPart::kCompensateSelect : StepPart::kSelect,
             detail_of(index, buckets_[index]),
             [&] { state.form->select(state.select, *state.pass, state.memory->accumulated()); });
}

void GradientExchange::exchange(const BucketGroup& group, StepTimers& timers) {
  const std::span<BucketState> states = states_of(group);
  rounds_.clear();  // of a step that ended before its rounds began
  times_.run(timers, StepPart::kExchange, detail_of(group), [&] {
    bool is_copying = false;
    for (const BucketState& state : states) is_copying = (state.is_mine() && state.form->stage()) || is_copying;
    if (is_copying) kernels::synchronize(device_);
    for (BucketState& state : states) {
      if (!state.is_mine()) continue;
      rounds_.push_back(state.form->rounds(communicator_, state.reduce, state.memory->accumulated(), state.reduction));
    }
    comm::run_rounds(*transport_, rounds_);
    for (BucketState& state : states) {
      if (state.is_mine()) state.outcome = &state.staging.to_device(state.reduction);
    }
  });
  for (const BucketState& state : states) {
    if (!state.is_mine()) continue;
    timers.add(StepPart::kExchange, -state.reduction.statistics.decode_seconds);
    timers.add(StepPart::kDecode, state.reduction.statistics.decode_seconds);
  }
}

void GradientExchange::settle(std::size_t index, BucketSum& sum, StepTimers& timers) {
  const Bucket& bucket = buckets_[index];
  BucketState& state = states_[index];
  times_.run(timers, StepPart::kSettle, detail_of(index, bucket), [&] {
    compress::Settlement settlement = state.form->settlement(*state.outcome);
    settlement.rate_share = step_.rate_share;
    state.memory->settle(settlement);
    const View<const float> gradient_sum = state.memory->to_gradient(sum.dense, sum.entries);
    if (gradient_sum.empty()) return;
    sum.dense = gradient_sum;
    sum.entries = nullptr;
  });
  const std::uint64_t step = state.exchanges++;
  const bool is_dense = state.form == state.dense.get();
  if (rules_.quantizes() || (is_dense && !is_sparse(index, step_.density))) return;
  const std::size_t global = global_count(state.reduction, bucket.size);
  if (is_dense) return count(state, bucket, bucket.size, global);
  state.form->observe({.step = step,
                       .numel = bucket.size,
                       .k = state.select.k,
                       .selected_counts = state.reduction.statistics.selected_counts,
                       .global_count = global});
  count(state, bucket, state.select.k, global);
}

void GradientExchange::count(const BucketState& state, const Bucket& bucket, std::size_t k, std::size_t global) {
  const comm::SparseReduction& reduction = state.reduction;
  const bool all = reduction.contributed_all;
  counts_.numel += bucket.size;
  for (std::size_t rank = 0; rank < counts_.selected.size(); ++rank) {
    counts_.selected[rank] += all ? bucket.size : reduction.statistics.selected_counts[rank];
  }
  const std::size_t ranks = counts_.selected.size();
  counts_.padded += ranks * (all ? bucket.size : std::ranges::max(reduction.statistics.selected_counts));
  if (!reduction.statistics.owned_counts.empty()) {
    counts_.owned += std::reduce(reduction.statistics.owned_counts.begin(), reduction.statistics.owned_counts.end());
    counts_.owned_padded += ranks * std::ranges::max(reduction.statistics.owned_counts);
  }
  const bool shared = !all && (selection_.partitioned || selection_.leader_only);
  counts_.target += static_cast<double>(k) / (shared ? communicator_.size() : 1);
  counts_.global += global;
  if (!std::isnan(reduction.statistics.lost_mass)) {
    counts_.lost_mass = (std::isnan(counts_.lost_mass) ? 0.0 : counts_.lost_mass) + reduction.statistics.lost_mass;
  }
}

GradientExchange::Thresholds GradientExchange::thresholds() const {
  Thresholds thresholds;
  for (const std::size_t index : exchanged_) {
    const BucketState& state = states_[index];
    const float threshold =
        state.reduction.contributed_all ? std::numeric_limits<float>::quiet_NaN() : state.form->threshold();
    if (std::isnan(threshold)) continue;
    thresholds.sum += threshold;
    ++thresholds.number;
  }
  return thresholds;
}

double GradientExchange::residual_norm() const {
  double sum = 0;
  for (const BucketState& state : states_) {
    if (!state.is_mine()) continue;
    const double norm = state.memory->residual_norm();
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

std::pair<double, double> GradientExchange::residual_mass() const {
  double sum = 0, magnitudes = 0;
  kernels::HostMirror<float> mirror;
  for (const BucketState& state : states_) {
    if (!state.is_mine()) continue;
    for (const float value : mirror.of(state.memory->residual())) {
      sum += value;
      magnitudes += std::abs(value);
    }
  }
  return {sum, magnitudes};
}

}  // namespace dragonn::exchange

// SPDX-License-Identifier: MIT
#include "trainer/gradient_exchange.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/align.h"
#include "comm/sparse/registry.h"
#include "core/memory_ledger.h"
#include "kernels/elementwise.h"
#include "kernels/exceedance.h"
#include "optim/clip.h"
#include "trainer/run_verb.h"

namespace dragonn::trainer {
namespace {

/// Of memory that the exchange holds beside its state, for the error when it runs out.
constexpr const char* kBufferLabel = "exchange buffers";

using comm::SparseCollectiveEntry;
using compress::MemoryEntry;
using compress::SparsifierEntry;

/// The sparsifier's entry, with the traits that its settings give it.
SparsifierEntry sparsifier_entry(const Component& component) {
  SparsifierEntry entry = Registry<SparsifierEntry>::instance().at(component.name);
  if (entry.adjust) entry.adjust(component.settings, entry);
  return entry;
}

const MemoryEntry& memory_entry(const Component& component) {
  return Registry<MemoryEntry>::instance().at(component.name);
}

std::unique_ptr<comm::SparseCollective> make_collective(const Component& component, std::size_t numel) {
  return comm::make_collective(component.name, component.settings, numel);
}

/// Dense buckets keep no residual: nothing stays behind.
Component no_memory() {
  return {"none", Settings(Registry<MemoryEntry>::instance().at("none").settings)};
}

/// Entries of the exchanged sum. A collective that decodes into n floats leaves its non-zeros to be counted.
std::size_t global_count(const comm::SparseReduction& reduction, std::size_t numel) {
  if (!reduction.is_dense) return reduction.sum.size();
  if (reduction.contributed_all) return numel;
  return kernels::exceedances(reduction.dense_sum.view(), 0.0f).count;
}

/// What left the rank and what came back, entry by entry.
compress::Settlement settlement_of(const comm::SparseReduction& reduction) {
  return {.contributed = reduction.contributed.view(),
          .contributed_all = reduction.contributed_all,
          .masked = reduction.masked(),
          .returned = &reduction.returned};
}

/// Every rank gets every code; what a quantizer rounds away is a memory's, unless the code is unbiased.
void check_quantizer(const ExchangeRules& rules) {
  const auto& entry = Registry<compress::QuantizerEntry>::instance().at(rules.quantizer.name);
  if (rules.collective.name != kCodeCollective) {
    throw ConfigError(fmt::format("quantizer '{}' does not go with collective '{}': its codes are gathered; valid: {}",
                                  entry.name, rules.collective.name, kCodeCollective));
  }
  if (!entry.unbiased || memory_entry(rules.memory).floats_per_element == 0) return;
  std::vector<std::string> fitting;
  const auto& memories = Registry<MemoryEntry>::instance();
  for (const std::string& name : memories.names()) {
    if (memories.at(name).floats_per_element == 0) fitting.push_back(name);
  }
  throw ConfigError(
      fmt::format("quantizer '{}' does not go with memory '{}': its codes are unbiased and take no error feedback; "
                  "valid: {}",
                  entry.name, rules.memory.name, fmt::join(fitting, ", ")));
}

/// What errors say of the exchange: "step 12, bucket 3". Steps count from 1, as in logs and metrics.
void set_label(comm::Communicator& communicator, std::uint64_t step, std::optional<std::size_t> bucket = {}) {
  std::array<char, comm::Activity::kLongestLabel> text;
  char* end = fmt::format_to_n(text.begin(), text.size(), "step {}", step + 1).out;
  if (bucket) end = fmt::format_to_n(end, text.end() - end, ", bucket {}", *bucket).out;
  communicator.set_label({text.begin(), end});
}

std::string lane_prefix(std::size_t index) {
  return fmt::format("exchange/bucket{}/", index);
}

}  // namespace

comm::SelectionTraits selection_traits(const Component& sparsifier) {
  const SparsifierEntry entry = sparsifier_entry(sparsifier);
  return {.fixed_size = entry.fixed_size,
          .at_most_k = entry.at_most_k,
          .shared_indices = entry.shared_indices,
          .partitioned = entry.partitioned,
          .leader_only = entry.leader_only,
          .rescaled = entry.rescaled,
          .blind = entry.blind};
}

void check_rules(const ExchangeRules& rules) {
  if (!rules.buckets.compress) return;
  if (rules.quantizes()) return check_quantizer(rules);
  const SparsifierEntry sparsifier = sparsifier_entry(rules.sparsifier);
  comm::check_pair(selection_traits(rules.sparsifier), rules.sparsifier.name, rules.collective.name);
  const MemoryEntry& memory = memory_entry(rules.memory);
  if (sparsifier.rescaled && memory.conserves) {
    throw ConfigError(
        fmt::format("sparsifier '{}' rescales its values: it needs compression.memory = \"none\", not \"{}\"",
                    rules.sparsifier.name, rules.memory.name));
  }
}

GradientExchange::GradientExchange(const ExchangeRules& rules, const ParameterArena& arena,
                                   comm::Communicator& communicator)
    : rules_(rules),
      communicator_(communicator),
      device_(arena.gradients().device()),
      buckets_(make_buckets(arena, rules.buckets)) {
  check_rules(rules_);
  counts_.selected.resize(static_cast<std::size_t>(communicator.size()));
  if (rules_.buckets.compress && !rules_.quantizes()) {
    selection_ = selection_traits(rules_.sparsifier);
  }
  lanes_.reserve(buckets_.size());
  const MemoryPlace messages = communicator.device_transport() != nullptr ? device_ : host_memory_for(device_);
  for (const Bucket& bucket : buckets_) {
    Lane& lane = lanes_.emplace_back(device_, messages);
    const Component memory = bucket.sparse ? rules_.memory : no_memory();
    const MemoryEntry& entry = memory_entry(memory);
    {
      const MemoryLabel label("error feedback");
      lane.memory = entry.make(memory.settings, bucket.size, rules_.momentum, rules_.nesterov, device_);
    }
    const MemoryLabel label(kBufferLabel);
    lane.dense = make_collective(rules_.dense, bucket.size);
    lane.slice = {bucket.offset, bucket.size, entry.owns_momentum, bucket.sparse && rules_.folded};
    if (!bucket.sparse) continue;
    if (rules_.quantizes()) {
      lane.quantized = std::make_unique<QuantizedExchange>(rules_.quantizer, bucket.size, communicator, device_);
      lane.reduction = comm::SparseReduction(device_);  // the codes are decoded where the gradient is
      continue;
    }
    lane.sparsifier = sparsifier_entry(rules_.sparsifier).make(rules_.sparsifier.settings, bucket.size, device_);
    lane.collective = make_collective(rules_.collective, bucket.size);
    any_sparse_ = true;
  }
  std::size_t offset = 0;
  for (std::size_t index = 0; index < lanes_.size(); ++index) {
    lanes_[index].dump_offset = offset;
    if (is_dumped(buckets_[index])) offset += buckets_[index].size;
  }
}

std::size_t GradientExchange::dump_size() const {
  std::size_t size = 0;
  for (const Bucket& bucket : buckets_) size += is_dumped(bucket) ? bucket.size : 0;
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
    if (is_sparse(index, density) && compress::target_count(density, bucket.size) < bucket.size)
      tensors += bucket.tensors;
  }
  return tensors;
}

void GradientExchange::run(const ExchangeStep& step, View<const float> gradient, StepTimers& timers, BucketGate* gate) {
  std::ranges::fill(counts_.selected, std::uint64_t{0});
  counts_.numel = 0;
  counts_.target = 0;
  counts_.global = 0;
  counts_.padded = 0;
  counts_.owned = 0;
  counts_.owned_padded = 0;
  counts_.threshold = 0;
  counts_.lost_mass = std::numeric_limits<double>::quiet_NaN();
  thresholds_seen_ = 0;
  non_finite_bucket_.reset();
  const MemoryLabel label(kBufferLabel);
  for (std::size_t index = 0; index < lanes_.size(); ++index) {
    if (gate != nullptr) gate->open(index);
    set_label(communicator_, step.step, index);
    run_lane(index, step, gradient, timers);
    set_label(communicator_, step.step);
    if (gate != nullptr) gate->close(index);
  }
  counts_.threshold = thresholds_seen_ == 0 ? std::numeric_limits<float>::quiet_NaN()
                                            : counts_.threshold / static_cast<float>(thresholds_seen_);
}

void GradientExchange::run_lane(std::size_t index, const ExchangeStep& step, View<const float> gradient,
                                StepTimers& timers) {
  const Bucket& bucket = buckets_[index];
  Lane& lane = lanes_[index];
  const compress::SelectContext select_context{
      .seed = rules_.seed,
      .step = step.step,
      .rank = communicator_.rank(),
      .world_size = communicator_.size(),
      .bucket = static_cast<std::uint32_t>(index),
      .density = step.density,
      .k = compress::target_count(step.density, bucket.size),
      .learning_rate = lane.slice.learning_rate_applied ? step.learning_rate : 1.0};
  const bool bypassed = lane.sparsifier && rules_.bypass_density_one && select_context.k >= bucket.size;
  const bool to_sparsify = is_sparse(index, step.density);
  const bool dense = !to_sparsify || bypassed;
  const float scale = step.gradient_scale * static_cast<float>(select_context.learning_rate);

  const kernels::PassRequest request = dense            ? kernels::PassRequest{}
                                       : lane.quantized ? lane.quantized->plan()
                                                        : lane.sparsifier->plan(select_context);
  // Where the pass selects too, the two verbs are one.
  const bool fused = request.kind != kernels::PassRequest::Kind::kNone;
  const kernels::PassResult* pass = nullptr;
  run_verb(device_, timers, fused ? Verb::kCompensateSelect : Verb::kCompensate,
           [&] { pass = &lane.memory->compensate(request, gradient.subview(bucket.offset, bucket.size), scale); });
  if (pass->non_finite && !non_finite_bucket_) non_finite_bucket_ = index;
  if (!step.accumulated.empty() && is_dumped(bucket)) {
    kernels::copy(lane.memory->accumulated(), step.accumulated.subview(lane.dump_offset, bucket.size));
  }
  const comm::ReduceContext context{
      .step = step.step, .k = select_context.k, .density = step.density, .selection = selection_};
  if (dense) {
    if (step.aligned) comm::align(communicator_);
    exchange_dense(lane, context, timers);
  } else {
    if (lane.sparsifier) agree(*lane.sparsifier, select_context, lane.memory->accumulated());
    run_verb(device_, timers, fused ? Verb::kCompensateSelect : Verb::kSelect,
             [&] { select(lane, select_context, *pass); });
    if (step.aligned) comm::align(communicator_);
    exchange_selected(lane, context, timers);
  }
  run_verb(device_, timers, Verb::kSettle,
           [&] { lane.memory->settle(lane.quantized ? lane.quantized->settlement() : settlement_of(*lane.outcome)); });
  if (lane.quantized) return;
  if (dense) {
    if (to_sparsify) count(lane, bucket, bucket.size);
    return;
  }
  lane.sparsifier->observe({.step = step.step,
                            .numel = bucket.size,
                            .k = select_context.k,
                            .selected_counts = lane.reduction.selected_counts,
                            .global_count = global_count(lane.reduction, bucket.size)});
  count(lane, bucket, select_context.k);
}

void GradientExchange::agree(compress::Sparsifier& sparsifier, const compress::SelectContext& context,
                             View<const float> acc) {
  if (communicator_.size() == 1) return;
  std::optional<float> proposal = sparsifier.propose(context, acc);
  if (!proposal) return;
  const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kHeader);
  communicator_.broadcast_value(0, *proposal);
  sparsifier.agree(*proposal);
}

void GradientExchange::exchange_dense(Lane& lane, const comm::ReduceContext& context, StepTimers& timers) {
  run_verb(device_, timers, Verb::kExchange, [&] {
    lane.selected.clear();
    lane.dense->reduce(communicator_, context, lane.memory->accumulated(), lane.selected, lane.reduction);
    lane.outcome = &lane.staging.to_device(lane.reduction);
  });
}

void GradientExchange::select(Lane& lane, const compress::SelectContext& context, const kernels::PassResult& pass) {
  const View<const float> acc = lane.memory->accumulated();
  if (lane.quantized) {
    lane.quantized->encode({.seed = context.seed, .step = context.step, .rank = context.rank, .bucket = context.bucket},
                           pass, acc);
  } else if (pass.non_finite && !selection_.shared_indices) {
    // The sums of this step will not be used: what matters is that the other ranks are not kept waiting. Where all
    // ranks select the same indices, they do so without a look at the values.
    lane.selected.clear();
  } else {
    lane.sparsifier->select(context, pass, acc, lane.selected);
  }
}

void GradientExchange::exchange_selected(Lane& lane, const comm::ReduceContext& context, StepTimers& timers) {
  run_verb(device_, timers, Verb::kExchange, [&] {
    if (lane.quantized) {
      lane.quantized->gather(communicator_, lane.reduction);
    } else {
      lane.collective->reduce(communicator_, context, lane.memory->accumulated(), lane.staging.outgoing(lane.selected),
                              lane.reduction);
    }
    lane.outcome = &lane.staging.to_device(lane.reduction);
  });
  timers.add(Verb::kExchange, -lane.reduction.decode_seconds);
  timers.add(Verb::kDecode, lane.reduction.decode_seconds);
}

void GradientExchange::count(const Lane& lane, const Bucket& bucket, std::size_t k) {
  const comm::SparseReduction& reduction = lane.reduction;
  const bool all = reduction.contributed_all;
  counts_.numel += bucket.size;
  for (std::size_t rank = 0; rank < counts_.selected.size(); ++rank) {
    counts_.selected[rank] += all ? bucket.size : reduction.selected_counts[rank];
  }
  const std::size_t ranks = counts_.selected.size();
  counts_.padded += ranks * (all ? bucket.size : std::ranges::max(reduction.selected_counts));
  if (!reduction.owned_counts.empty()) {
    counts_.owned += std::accumulate(reduction.owned_counts.begin(), reduction.owned_counts.end(), std::uint64_t{0});
    counts_.owned_padded += ranks * std::ranges::max(reduction.owned_counts);
  }
  const bool shared = !all && (selection_.partitioned || selection_.leader_only);
  counts_.target += static_cast<double>(k) / (shared ? communicator_.size() : 1);
  counts_.global += global_count(reduction, bucket.size);
  if (!std::isnan(reduction.lost_mass)) {
    counts_.lost_mass = (std::isnan(counts_.lost_mass) ? 0.0 : counts_.lost_mass) + reduction.lost_mass;
  }
  const float threshold = all ? std::numeric_limits<float>::quiet_NaN() : lane.sparsifier->threshold();
  if (std::isnan(threshold)) return;
  counts_.threshold += threshold;
  ++thresholds_seen_;
}

double GradientExchange::mean_gradient_norm() const {
  double sum = 0;
  for (const Lane& lane : lanes_) {
    const Buffer<float>& values = lane.outcome->is_dense ? lane.outcome->dense_sum : lane.outcome->sum.values;
    sum += optim::squared_norm(values.view());
  }
  return std::sqrt(sum) / communicator_.size();
}

void GradientExchange::apply(optim::Optimizer& optimizer, float scale, StepTimers& timers) {
  const float mean_scale = scale / static_cast<float>(communicator_.size());
  run_verb(device_, timers, Verb::kOptimize, [&] {
    for (const Lane& lane : lanes_) {
      if (lane.outcome->is_dense) {
        optimizer.update(lane.slice, lane.outcome->dense_sum.view(), mean_scale);
      } else {
        optimizer.update(lane.slice, lane.outcome->sum, mean_scale);
      }
    }
  });
}

double GradientExchange::residual_norm() const {
  double sum = 0;
  for (const Lane& lane : lanes_) {
    const double norm = lane.memory->residual_norm();
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

void GradientExchange::save(Archive& archive) const {
  for (std::size_t index = 0; index < lanes_.size(); ++index) {
    const std::string prefix = lane_prefix(index);
    archive.put(prefix + "offset", static_cast<std::uint64_t>(buckets_[index].offset));
    archive.put(prefix + "size", static_cast<std::uint64_t>(buckets_[index].size));
    lanes_[index].memory->save(archive, prefix + "memory/");
    if (lanes_[index].sparsifier) lanes_[index].sparsifier->save(archive, prefix + "sparsifier/");
    if (lanes_[index].collective) lanes_[index].collective->save(archive, prefix + "collective/");
  }
}

void GradientExchange::load(const Archive& archive) {
  for (std::size_t index = 0; index < lanes_.size(); ++index) {
    const std::string prefix = lane_prefix(index);
    if (archive.get<std::uint64_t>(prefix + "offset") != buckets_[index].offset ||
        archive.get<std::uint64_t>(prefix + "size") != buckets_[index].size) {
      throw ConfigError(fmt::format("the checkpoint's bucket {} is not {} of this run: compression.bucket differs",
                                    index, buckets_[index].name));
    }
    lanes_[index].memory->load(archive, prefix + "memory/");
    if (lanes_[index].sparsifier) lanes_[index].sparsifier->load(archive, prefix + "sparsifier/");
    if (lanes_[index].collective) lanes_[index].collective->load(archive, prefix + "collective/");
  }
}

}  // namespace dragonn::trainer

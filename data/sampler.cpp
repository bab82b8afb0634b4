// SPDX-License-Identifier: MIT
#include "data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/rng.h"

namespace dragonn::data {
namespace {

void check(std::size_t samples, const BatchRules& rules) {
  DRAGONN_CHECK(rules.world >= 1 && rules.rank >= 0 && rules.rank < rules.world, "rank {} of {}", rules.rank,
                rules.world);
  if (rules.batch == 0) throw ConfigError("batch size 0: it must be at least 1");
  // The limit comes from permutations of 32-bit indices.
  DRAGONN_CHECK(samples <= UINT32_MAX, "{} samples: at most {} can be shuffled", samples, UINT32_MAX);
  const auto world = static_cast<std::size_t>(rules.world);
  if (samples < world) {
    throw ConfigError(
        fmt::format("{} workers for {} training samples: at most {} workers can take part", world, samples, samples));
  }
  if (rules.remainder == Remainder::kDrop && rules.batch > samples / world) {
    throw ConfigError(
        fmt::format("a step takes {} workers x batch size {} samples, but there are {}: use a batch size "
                    "of at most {}, fewer workers, or the remainder policy 'pad'",
                    world, rules.batch, samples, samples / world));
  }
}

}  // namespace

ShardedSampler::ShardedSampler(std::size_t samples, const BatchRules& rules) : samples_(samples), rules_(rules) {
  check(samples, rules);
  steps_per_epoch_ = steps_in(samples);
  order_.resize(std::max(samples, steps_per_epoch_ * per_step()));
}

std::size_t ShardedSampler::steps_in(std::size_t samples) const {
  const bool pads = rules_.remainder == Remainder::kPad && samples % per_step() != 0;
  return samples / per_step() + (pads ? 1 : 0);
}

std::span<const std::uint32_t> ShardedSampler::batch(std::uint64_t epoch, std::size_t step) {
  DRAGONN_CHECK(step < steps_per_epoch_, "step {} of an epoch of {} steps", step, steps_per_epoch_);
  shuffle(epoch);
  const Continued part = continued_ && continued_->epoch == epoch ? *continued_ : Continued{epoch, 0, 0};
  DRAGONN_CHECK(step >= part.first_step, "step {} of an epoch that goes on at step {}", step, part.first_step);
  const std::size_t place = part.done + (step - part.first_step) * per_step();
  return std::span(order_).subspan(place + static_cast<std::size_t>(rules_.rank) * rules_.batch, rules_.batch);
}

std::size_t ShardedSampler::continue_epoch(std::uint64_t epoch, std::uint64_t done) {
  const auto first = static_cast<std::size_t>(std::min<std::uint64_t>(done, samples_));
  const std::size_t steps = steps_in(samples_ - first);
  continued_ = {epoch, first, steps_per_epoch_ - steps};
  order_.resize(std::max(order_.size(), first + steps * per_step()));
  shuffled_ = false;
  return steps;
}

std::span<const std::uint32_t> ShardedSampler::permutation(std::uint64_t epoch) {
  shuffle(epoch);
  return std::span(order_).first(samples_);
}

void ShardedSampler::shuffle(std::uint64_t epoch) {
  if (shuffled_ && epoch == epoch_) return;
  std::iota(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(samples_), 0u);
  Rng rng(rules_.seed, "shuffle", {epoch});
  for (std::size_t i = samples_; i > 1; --i) std::swap(order_[i - 1], order_[rng.below(i)]);
  for (std::size_t i = samples_; i < order_.size(); ++i) order_[i] = order_[i - samples_];
  epoch_ = epoch;
  shuffled_ = true;
}

EvaluationShard evaluation_shard(std::size_t samples, int rank, int world) {
  DRAGONN_CHECK(world >= 1 && rank >= 0 && rank < world, "rank {} of {}", rank, world);
  const auto ranks = static_cast<std::size_t>(world), index = static_cast<std::size_t>(rank);
  const std::size_t base = samples / ranks, larger = samples % ranks;  // the first `larger` ranks take one more
  const std::size_t begin = index * base + std::min(index, larger);
  return {begin, begin + base + (index < larger ? 1 : 0)};
}

}  // namespace dragonn::data

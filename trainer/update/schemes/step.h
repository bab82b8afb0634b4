// SPDX-License-Identifier: MIT
/// The parts of a step that update schemes share: agreement, and the update of the parameters by exchanged sums.
#pragma once

#include <cstdint>
#include <span>

#include "exchange/gradient_exchange.h"
#include "exchange/step_agreement.h"
#include "trainer/run/generation.h"
#include "trainer/update/sums.h"
#include "trainer/update/update_scheme.h"

namespace dragonn::trainer {

/// Collective, at most once in a step. Reduces the ranks' words and the signals that reached them. A scheme that
/// exchanges rarely may agree as rarely: a stop then waits for it. What the agreement is about counts when this returns
/// (trainer/run/commits.h).
/// @throws comm::CollectiveError if a bucket was not finite in step `exchanged` (from 1).
exchange::StepWord agree_on_step(Generation& generation, exchange::StepWord mine, std::uint64_t exchanged);

/// Returns the factor that makes a sum of gradients of `batches` micro-batches their mean, clipped if train.clip is
/// local (ExchangeStep::gradient_scale).
float mean_scale(const Generation& generation, View<const float> sum, std::int64_t batches);

/// Updates the parameters by the mean over ranks of these sums, clipped if train.clip is global. @param step from 0, of
/// the gradients.
void apply_mean(Generation& generation, const StepValues& values, std::span<const exchange::BucketSum> sums,
                std::uint64_t step);

/// Adds the times of work that went on beside a step, or before it.
void add_times(const StepTimers& times, StepTimers& sum);

}  // namespace dragonn::trainer

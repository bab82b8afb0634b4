// SPDX-License-Identifier: MIT
/// Exchanged sums, as an optimizer takes them.
#pragma once

#include <span>

#include "core/component_traits.h"
#include "exchange/gradient_exchange.h"
#include "optim/optimizer.h"

namespace dragonn::trainer {

/// Feeds the means of these sums (BucketSum::divisor) times `scale` to the optimizer, which has begun its step.
void apply_sums(std::span<const exchange::BucketSum> sums, float scale, optim::Optimizer& optimizer);

/// Returns the setting `average` of a scheme, and whether it asks for ExchangeRules::averages_senders.
SettingSpec average_spec();
bool averages_senders(const Settings& settings);

}  // namespace dragonn::trainer

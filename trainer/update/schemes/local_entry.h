// SPDX-License-Identifier: MIT
/// The settings of the update scheme `local`: for the trainer's scheme, and for a library whose caller makes the inner
/// steps.
#pragma once

#include <memory>

#include "core/component_traits.h"
#include "core/parameter.h"
#include "optim/optimizer.h"
#include "trainer/update/schemes/fragments.h"
#include "trainer/update/update_scheme.h"

namespace dragonn::trainer {

/// Fills in all of the entry but `make`.
void describe_local(UpdateSchemeEntry& entry);

/// Returns the turns of the fragments. @throws ConfigError if they do not fit into a round.
FragmentSchedule schedule_of(const Settings& settings);

/// Returns the outer optimizer. The inner one alone decays weights.
std::unique_ptr<optim::Optimizer> make_outer(const Settings& settings, ParameterArena& arena);

}  // namespace dragonn::trainer

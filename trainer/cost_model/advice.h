// SPDX-License-Identifier: MIT
/// Advice: compares sparsified exchanges on a network with dense exchanges as PyTorch DDP makes them.
#pragma once

#include "trainer/cost_model/cost_model.h"
#include "trainer/cost_model/step_estimate.h"
#include "trainer/cost_model/tensor_selection.h"

namespace dragonn::trainer {

/// Compares a step of the run, with its buckets, groups and decisions, with dense exchanges of merged buckets of 25 MiB
/// beside backward. Both agree on one word per step. If no backward time is known nothing overlaps.
/// @param costs decided (choose_sparse).  @param curve of their density.
StepAdvice advise(const SelectionQuestion& question, const comm::NetworkModel& network, const DensityCosts& costs,
                  const CostCurve& curve, std::optional<double> backward_seconds);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Advice: compares a run's exchanges on a network with dense ones, and with those of other settings.
#pragma once

#include "trainer/cost_model/cost_model.h"
#include "trainer/cost_model/step_estimate.h"
#include "trainer/cost_model/tensor_selection.h"

namespace dragonn::trainer {

/// Compares a step of the run, with its buckets, groups and choice of tensors, with dense exchanges of merged buckets
/// of 25 MiB beside backward, by each algorithm whose cost is known. All agree on one word per step. If no backward
/// time is known nothing overlaps.
///
/// The remedy is the fastest combination of compression.bucket, include_vectors, fusion_mib, overlap and codec.indices
/// and comm.dense_algorithm. Settings that change what a run learns from an entry (the method, its density, lossy
/// codes) are the user's choice and stay as they are.
/// @param costs decided (choose_sparse), as the run follows them; of a quantizer without tensors.
/// @param curve of their density.
StepAdvice advise(const SelectionQuestion& question, const comm::NetworkModel& network, const DensityCosts& costs,
                  const CostCurve& curve, std::optional<double> backward_seconds);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Stand-ins: a network and data with the sizes of a run's, whose passes compute nothing. A virtual cluster of them
/// exchanges what the run would, and takes little time here.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "layers/network.h"

namespace dragonn::trainer {

/// Returns a network with the parameters, in the same order, and the operations of another one, on the CPU and without
/// memory yet. Forward does nothing. Backward fills the gradients with values as heavy-tailed as gradients are
/// (profile_gradient), which depend on the rank, the pass and the parameter: half of the variance is the same on all
/// ranks, as they train one model. A parameter that layers share is final with the first of them, as in the network.
/// Sizes of tensors are those of the network, and magnitudes are alike in all of them.
layers::Network stand_in_network(const layers::Network& network, int rank);

/// Returns splits whose batches hold one sample of one class for each of `micro_batches`, in epochs without an end.
data::DatasetSplits stand_in_data(std::int64_t micro_batches);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Stand-in: a network that has the tensors of a model and computes nothing, for exchanges without training.
#pragma once

#include <cstdint>
#include <memory>

#include "layers/graph.h"
#include "layers/network.h"

namespace dragonn::bench {

/// Returns a graph with the layers of `model` that have parameters or products, one after the other, under their names
/// and with their operations. Forward gives zeros. Backward gives each rank and step independent gradients
/// (draw_worker_gradient), whose deviation differs from sixteenth to sixteenth of a tensor. A shared tensor is that of
/// its first layer.
/// @param scale how many times shorter the last axis of each tensor is. With the same factor on the bandwidth, bytes
/// take the time that those of the whole tensors take.  @param data of the batches.
/// @throws ConfigError if the scale does not divide a tensor's last axis.
std::unique_ptr<layers::LayerGraph> make_stand_in(const layers::LayerGraph& model, std::int64_t scale,
                                                  const layers::ModelContext& data);

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// Mode: the purpose of a forward pass.
#pragma once

namespace dragonn::layers {

/// The purpose of a forward pass. kTrain: batch statistics, dropout, and memory for a backward pass. kEvaluate: running
/// statistics and no dropout.
enum class Mode { kTrain, kEvaluate };

}  // namespace dragonn::layers

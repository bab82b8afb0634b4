// SPDX-License-Identifier: MIT
/// What a forward pass is for.
#pragma once

namespace dragonn::layers {

/// kTrain: batch statistics, dropout, and memory for a backward pass. kEvaluate: running statistics and no dropout.
enum class Mode { kTrain, kEvaluate };

}  // namespace dragonn::layers

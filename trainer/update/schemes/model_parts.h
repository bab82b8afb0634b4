// SPDX-License-Identifier: MIT
/// The parts of a model that the update scheme `local` exchanges: its fragments, and all of it.
#pragma once

#include <cstddef>
#include <vector>

#include "core/parameter.h"
#include "exchange/gradient_exchange.h"

namespace dragonn::trainer {

/// Tensors that are exchanged at once.
struct ModelPart {
  std::vector<ParameterId> tensors;
  std::vector<std::size_t> groups;  ///< of the exchange
};

/// Returns the parts by fragment, and behind them the whole model. @param exchange of this arena and these fragments.
std::vector<ModelPart> model_parts(const ParameterArena& arena, std::size_t fragments,
                                   const exchange::GradientExchange& exchange);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Recurrent steps: the elementwise work of one step, the device's part of a recurrent plan beside matrix products. For
/// source files of this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/nn/recurrent.h"

namespace dragonn::kernels::detail {

/// The rows of one time step; [batch, hidden] each, gates [batch, gates, hidden]. Samples whose length is not above
/// `step` have ended.
struct StepRows {
  std::size_t batch = 0, hidden = 0;
  std::size_t step = 0;
  const std::int32_t* lengths = nullptr;  ///< on the device; null if no sample has ended
};

/// The arguments of forward, as CellForward of kernels/nn/recurrent_cells.h. Samples that have ended keep their states.
struct StepForward {
  StepRows rows;
  float* gates;
  const float* recurrent;
  const float* bias;
  const float* previous;
  const float* cell;
  float* hidden;
  float* next_cell;
  float* kept;
};

/// The arguments of backward, as CellBackward. For samples that have ended the gradients are zeros, and the gradient
/// through the product is added to `direct`.
struct StepBackward {
  StepRows rows;
  const float* gates;
  const float* kept;
  const float* previous;
  const float* cell;
  const float* output_gradient;
  const float* through_product;
  float* direct;
  float* cell_gradient;
  float* gate_gradients;
  float* recurrent_gradients;
};

/// A device's functions. `place` makes lengths readable for the steps of one pass; null for none.
struct StepFunctions {
  const std::int32_t* (*place)(const Device& device, std::span<const std::int32_t> lengths);
  void (*forward)(const Device& device, Cell cell, const StepForward& step);
  void (*backward)(const Device& device, Cell cell, const StepBackward& step);
};

/// Makes the plan of a device that has these functions and the products.
std::unique_ptr<RecurrentPlan> make_stepped_recurrent(const Device& device, const RecurrentSpec& spec,
                                                      const StepFunctions& functions);

}  // namespace dragonn::kernels::detail

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

/// Gates are [gates, hidden] in a row. Samples that have ended keep their states.
struct StepForward {
  StepRows rows;
  float* gates;            ///< in: the input's part with its bias; out: the gates behind their nonlinearities
  const float* recurrent;  ///< the previous hidden state's part
  const float* bias;       ///< added to it
  const float* previous;   ///< hidden state
  const float* cell;       ///< previous cell state; LSTM only
  float* hidden;           ///< out
  float* next_cell;        ///< out; LSTM only
  float* kept;             ///< out, for backward: tanh of the cell state (LSTM), the candidate's recurrent part (GRU)
};

/// A step of backward. Samples that have ended have gradients of zeros; the gradient through the product joins
/// `direct`.
struct StepBackward {
  StepRows rows;
  const float* gates;
  const float* kept;
  const float* previous;         ///< hidden state
  const float* cell;             ///< previous cell state; LSTM only
  const float* output_gradient;  ///< what the layers behind want of this step
  const float* through_product;  ///< what the step behind wants, through the recurrent weights
  float* direct;                 ///< in and out: what steps want of the hidden state past the weights
  float* cell_gradient;          ///< in and out; LSTM only
  float* gate_gradients;         ///< out: of the input's part
  float* recurrent_gradients;    ///< out: of the recurrent part; GRU only, an LSTM's are gate_gradients
};

/// A device's functions. `place` makes lengths readable for the steps of one pass; null for none.
struct StepFunctions {
  const std::int32_t* (*place)(const Device& device, std::span<const std::int32_t> lengths);
  void (*forward)(const Device& device, Cell cell, const StepForward& step);
  void (*backward)(const Device& device, Cell cell, const StepBackward& step);
};

/// Returns the floats of saved memory before the second state, which begins a cache line; the first state ends there.
/// From the first step to the last these are the start and then the hidden states of all steps, so that a device's
/// library can take the place of the steps.
inline std::size_t saved_before_hidden(const RecurrentSpec& spec) {
  return aligned_floats(static_cast<std::size_t>(spec.batch * spec.hidden));
}

/// Makes the plan of a device that has these functions and the products.
std::unique_ptr<RecurrentPlan> make_stepped_recurrent(const Device& device, const RecurrentSpec& spec,
                                                      const StepFunctions& functions);

}  // namespace dragonn::kernels::detail

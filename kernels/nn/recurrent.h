// SPDX-License-Identifier: MIT
/// Recurrent layers (LSTM, GRU) in one direction over time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/nn/plan.h"

namespace dragonn::kernels {

enum class Cell { kLstm, kGru };

/// Returns the rows of the weights per hidden unit: i, f, g, o, or r, z, n.
constexpr std::int64_t gates_of(Cell cell) {
  return cell == Cell::kLstm ? 4 : 3;
}

/// The shape. Sequences are time-major, [steps, batch, ...], so that a step is a contiguous matrix. All float32.
struct RecurrentSpec {
  Cell cell = Cell::kLstm;
  std::int64_t steps = 1, batch = 1, inputs = 1, hidden = 1;
  bool reverse = false;        ///< runs from the last step to the first
  bool training = true;        ///< backward will be called
  bool input_gradient = true;  ///< backward computes the input's gradient
  DeviceMath math = DeviceMath::kFloat32;
};

/// The algorithms of a recurrent layer on a GPU, for reports.
inline constexpr const char* kFusedRecurrent = "cudnn";
inline constexpr const char* kSteppedRecurrent = "steps";

/// The parameters, or their gradients. G = gates_of(cell) * hidden: input weights [G, inputs], recurrent weights [G,
/// hidden], two biases [G].
template <class T>
struct RecurrentWeights {
  View<T> input, recurrent, input_bias, recurrent_bias;
};

struct RecurrentForward {
  View<const float> input;  ///< [steps, batch, inputs]
  RecurrentWeights<const float> weights;
  std::span<const View<float>>
      states;  ///< hidden, then cell (LSTM), [batch, hidden]; read, then overwritten. Empty: zeros
  std::span<const std::int32_t> lengths;  ///< [batch], valid steps; empty: all are
  View<float> saved;
  View<float> scratch;
};

struct RecurrentBackward {
  View<const float> input;
  RecurrentWeights<const float> weights;
  View<const float> output_gradient;  ///< [steps, batch, hidden]; read at valid steps only
  View<float> input_gradient;         ///< empty if the plan was made without; 0 at steps that are not valid
  RecurrentWeights<float> gradients;  ///< overwritten
  std::span<const std::int32_t> lengths;
  View<const float> saved;
  View<float> scratch;
};

/// A recurrent layer in one direction, for one shape. The input's part of all gates is one matrix product over all
/// steps, as are the gradients of all weights. A step multiplies the hidden state by recurrent weights that were packed
/// once. Steps behind a sample's length leave its state as it is. No gradient flows into the state that a pass starts
/// from.
class RecurrentPlan {
 public:
  virtual ~RecurrentPlan() = default;
  virtual PlanMemory memory() const = 0;
  virtual std::vector<PassDescription> describe() const { return {}; }
  virtual void forward(const RecurrentForward& arguments) = 0;
  virtual void backward(const RecurrentBackward& arguments) = 0;
  /// Returns [steps, batch, hidden] of what forward saved. At steps that are not valid: the state that was held.
  virtual View<const float> hidden(View<const float> saved) const = 0;
};

/// Makes a plan.
extern PlanFactory<RecurrentSpec, RecurrentPlan> make_recurrent_plan;

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/runtime.h"
#include "kernels/nn/cuda/fused_recurrent.h"
#include "kernels/nn/recurrent.h"
#include "kernels/nn/recurrent_steps.h"

namespace dragonn::kernels::cuda {
namespace {

using kernels::detail::StepBackward;
using kernels::detail::StepForward;
using kernels::detail::StepRows;

__device__ float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}
/// Returns the slope of a sigmoid, and below that of a tanh, whose value is y.
__device__ float sigmoid_slope(float y) {
  return y * (1 - y);
}
__device__ float tanh_slope(float y) {
  return 1 - y * y;
}

__device__ bool is_valid(const StepRows& rows, std::size_t sample) {
  return rows.lengths == nullptr || static_cast<std::int64_t>(rows.step) < rows.lengths[sample];
}

/// The place of element `i` of [batch, hidden].
struct Unit {
  __device__ Unit(const StepRows& rows, std::size_t i, std::size_t gates) {
    const Split at = split(i, rows.hidden);
    sample = at.quotient;
    unit = at.remainder;
    gate = at.quotient * gates * rows.hidden + at.remainder;
  }
  std::size_t sample, unit;
  std::size_t gate;  // place of its first gate; from gate to gate it is `hidden`
};

// A thread takes a sample and unit. The formulas are those of kernels/nn/recurrent_cells.cpp.

__device__ void lstm_forward(const StepForward& step, std::size_t i, const Unit& at) {
  const std::size_t size = step.rows.hidden, place = at.gate;
  const auto sum = [&](std::size_t gate) {
    return step.gates[place + gate * size] + step.recurrent[place + gate * size] + step.bias[at.unit + gate * size];
  };
  const float input = sigmoid(sum(0)), forget = sigmoid(sum(1)), candidate = tanhf(sum(2)), output = sigmoid(sum(3));
  const float cell = forget * step.cell[i] + input * candidate, bounded = tanhf(cell);
  step.gates[place] = input;
  step.gates[place + size] = forget;
  step.gates[place + 2 * size] = candidate;
  step.gates[place + 3 * size] = output;
  step.next_cell[i] = cell;
  step.kept[i] = bounded;
  step.hidden[i] = output * bounded;
}

__device__ void gru_forward(const StepForward& step, std::size_t i, const Unit& at) {
  const std::size_t size = step.rows.hidden, place = at.gate;
  const auto recurrent = [&](std::size_t gate) {
    return step.recurrent[place + gate * size] + step.bias[at.unit + gate * size];
  };
  const float reset = sigmoid(step.gates[place] + recurrent(0));
  const float update = sigmoid(step.gates[place + size] + recurrent(1));
  const float kept = recurrent(2), candidate = tanhf(reset * kept + step.gates[place + 2 * size]);
  step.gates[place] = reset;
  step.gates[place + size] = update;
  step.gates[place + 2 * size] = candidate;
  step.kept[i] = kept;
  step.hidden[i] = update * (step.previous[i] - candidate) + candidate;
}

__global__ void forward_kernel(Cell cell, StepForward step, std::size_t size) {
  const std::size_t gates = cell == Cell::kLstm ? 4 : 3;
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Unit at(step.rows, i, gates);
    if (!is_valid(step.rows, at.sample)) {
      step.hidden[i] = step.previous[i];
      if (cell == Cell::kLstm) step.next_cell[i] = step.cell[i];
    } else if (cell == Cell::kLstm) {
      lstm_forward(step, i, at);
    } else {
      gru_forward(step, i, at);
    }
  }
}

__device__ void lstm_backward(const StepBackward& step, std::size_t i, const Unit& at) {
  const std::size_t size = step.rows.hidden, place = at.gate;
  const float input = step.gates[place], forget = step.gates[place + size];
  const float candidate = step.gates[place + 2 * size], output = step.gates[place + 3 * size], bounded = step.kept[i];
  const float hidden = step.output_gradient[i] + step.through_product[i] + step.direct[i];
  const float cell = hidden * output * tanh_slope(bounded) + step.cell_gradient[i];
  step.gate_gradients[place] = cell * candidate * sigmoid_slope(input);
  step.gate_gradients[place + size] = cell * step.cell[i] * sigmoid_slope(forget);
  step.gate_gradients[place + 2 * size] = cell * input * tanh_slope(candidate);
  step.gate_gradients[place + 3 * size] = hidden * bounded * sigmoid_slope(output);
  step.cell_gradient[i] = cell * forget;
  step.direct[i] = 0;
}

__device__ void gru_backward(const StepBackward& step, std::size_t i, const Unit& at) {
  const std::size_t size = step.rows.hidden, place = at.gate;
  const float reset = step.gates[place], update = step.gates[place + size], candidate = step.gates[place + 2 * size];
  const float hidden = step.output_gradient[i] + step.through_product[i] + step.direct[i];
  const float to_candidate = hidden * (1 - update) * tanh_slope(candidate);
  const float to_update = hidden * (step.previous[i] - candidate) * sigmoid_slope(update);
  const float to_reset = to_candidate * step.kept[i] * sigmoid_slope(reset);
  step.gate_gradients[place] = step.recurrent_gradients[place] = to_reset;
  step.gate_gradients[place + size] = step.recurrent_gradients[place + size] = to_update;
  step.gate_gradients[place + 2 * size] = to_candidate;
  step.recurrent_gradients[place + 2 * size] = to_candidate * reset;
  step.direct[i] = hidden * update;
}

__global__ void backward_kernel(Cell cell, StepBackward step, std::size_t size) {
  const std::size_t gates = cell == Cell::kLstm ? 4 : 3;
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Unit at(step.rows, i, gates);
    if (!is_valid(step.rows, at.sample)) {
      for (std::size_t gate = 0; gate < gates; ++gate)
        step.gate_gradients[at.gate + gate * step.rows.hidden] =
            step.recurrent_gradients[at.gate + gate * step.rows.hidden] = 0;
      step.direct[i] += step.through_product[i];
    } else if (cell == Cell::kLstm) {
      lstm_backward(step, i, at);
    } else {
      gru_backward(step, i, at);
    }
  }
}

const std::int32_t* place(const Device& device, std::span<const std::int32_t> lengths) {
  return lengths.empty() ? nullptr : context(device).stage({lengths});
}

void forward_step(const Device& device, Cell cell, const StepForward& step) {
  const Context& here = context(device);
  const std::size_t size = step.rows.batch * step.rows.hidden;
  launch_over(here, "recurrent_step", size, forward_kernel, cell, step, size);
}

void backward_step(const Device& device, Cell cell, const StepBackward& step) {
  const Context& here = context(device);
  const std::size_t size = step.rows.batch * step.rows.hidden;
  launch_over(here, "recurrent_step_backward", size, backward_kernel, cell, step, size);
}

/// Warns that the steps of a layer are launched one by one, once per shape.
void warn_of_steps(const RecurrentSpec& spec, const std::string& reason) {
  warn_of_slower_way(
      fmt::format("a recurrent layer of {} units over {} steps takes its steps one by one", spec.hidden, spec.steps),
      reason);
}

/// Does passes by cuDNN, from the first step to the last, if all steps are valid. Otherwise takes the steps one by one.
class CudaRecurrent final : public RecurrentPlan {
 public:
  CudaRecurrent(const Device& device, const RecurrentSpec& spec)
      : spec_(spec),
        stepped_(kernels::detail::make_stepped_recurrent(device, spec, {place, forward_step, backward_step})) {
    if (spec.reverse) return;
    std::string obstacle;
    fused_ = make_fused_recurrent(device, spec, obstacle);
    if (fused_ == nullptr && !obstacle.empty()) warn_of_steps(spec, obstacle);
  }

  /// Has room for the steps beside cuDNN: for passes with lengths, and for those that cuDNN refuses.
  PlanMemory memory() const override {
    PlanMemory memory = stepped_->memory();
    if (fused_ == nullptr) return memory;
    memory.saved = std::max(memory.saved, fused_->saved_floats());
    memory.forward_scratch = std::max(memory.forward_scratch, floats_for_bytes(fused_->forward_bytes()));
    memory.backward_scratch = std::max(memory.backward_scratch, floats_for_bytes(fused_->backward_bytes()));
    return memory;
  }

  std::vector<PassDescription> describe() const override {
    const bool fused = fused_ != nullptr;
    const auto pass = [&](const char* name, std::size_t bytes) {
      return PassDescription{std::string(name) + (spec_.reverse ? "_reverse" : ""),
                             fused ? kFusedRecurrent : kSteppedRecurrent,
                             spec_.math == DeviceMath::kFloat32 ? "fma" : "tensor_op", bytes};
    };
    std::vector<PassDescription> passes{pass("forward", fused ? fused_->forward_bytes() : 0)};
    if (spec_.training) passes.push_back(pass("backward", fused ? fused_->backward_bytes() : 0));
    return passes;
  }

  void forward(const RecurrentForward& arguments) override {
    if (does_fused(arguments.lengths)) {
      const std::string refusal = fused_->forward(arguments);
      if (refusal.empty()) return;
      fused_.reset();
      warn_of_steps(spec_, refusal);
    }
    stepped_->forward(arguments);
  }

  View<const float> hidden(View<const float> saved) const override { return stepped_->hidden(saved); }

  void backward(const RecurrentBackward& arguments) override {
    if (!does_fused(arguments.lengths)) return stepped_->backward(arguments);
    fused_->backward(arguments);
  }

 private:
  /// Returns whether cuDNN does a pass with these lengths, forward and backward alike.
  bool does_fused(std::span<const std::int32_t> lengths) const { return fused_ != nullptr && lengths.empty(); }

  RecurrentSpec spec_;
  std::unique_ptr<RecurrentPlan> stepped_;
  std::unique_ptr<FusedRecurrent> fused_;  // where cuDNN has it
};

[[maybe_unused]] const bool registered =
    kernels::make_recurrent_plan.add(DeviceType::kCuda, construct_plan<CudaRecurrent>);

}  // namespace
}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/recurrent_cells.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/nn/loss_rows.h"
#include "kernels/nn/recurrent_steps.h"
#include "kernels/partial_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(x))));
}
/// Returns y (1 - y): the slope of a sigmoid whose value is y.
template <class D, class V>
HWY_INLINE V sigmoid_slope(D d, V y) {
  return hn::Mul(y, hn::Sub(hn::Set(d, 1.0f), y));
}
template <class D, class V>
HWY_INLINE V tanh_slope(D d, V y) {
  return hn::Sub(hn::Set(d, 1.0f), hn::Mul(y, y));
}

// The elementwise work of one sample, whose row the pointers are at.

/// Computes an LSTM cell with gates i, f, g, o: c' = f c + i g, h' = o tanh(c').
/// Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000; layout as PyTorch's.
void lstm_forward(const StepForward& row) {
  const std::size_t size = row.rows.hidden;
  for_each_element(size, [&](auto d, std::size_t i) HWY_ATTR {
    const auto sum = [&](std::size_t gate) HWY_ATTR {
      const std::size_t at = gate * size + i;
      return hn::Add(hn::Add(hn::LoadU(d, row.gates + at), hn::LoadU(d, row.recurrent + at)),
                     hn::LoadU(d, row.bias + at));
    };
    const auto input = sigmoid(d, sum(0)), forget = sigmoid(d, sum(1));
    const auto candidate = hn::Tanh(d, sum(2)), output = sigmoid(d, sum(3));
    const auto cell = hn::MulAdd(forget, hn::LoadU(d, row.cell + i), hn::Mul(input, candidate));
    const auto bounded = hn::Tanh(d, cell);
    hn::StoreU(input, d, row.gates + i);
    hn::StoreU(forget, d, row.gates + size + i);
    hn::StoreU(candidate, d, row.gates + 2 * size + i);
    hn::StoreU(output, d, row.gates + 3 * size + i);
    hn::StoreU(cell, d, row.next_cell + i);
    hn::StoreU(bounded, d, row.kept + i);
    hn::StoreU(hn::Mul(output, bounded), d, row.hidden + i);
  });
}

void lstm_backward(const StepBackward& row) {
  const std::size_t size = row.rows.hidden;
  for_each_element(size, [&](auto d, std::size_t i) HWY_ATTR {
    const auto gate = [&](std::size_t which) HWY_ATTR { return hn::LoadU(d, row.gates + which * size + i); };
    const auto input = gate(0), forget = gate(1), candidate = gate(2), output = gate(3);
    const auto bounded = hn::LoadU(d, row.kept + i);
    const auto hidden = hn::Add(hn::Add(hn::LoadU(d, row.output_gradient + i), hn::LoadU(d, row.through_product + i)),
                                hn::LoadU(d, row.direct + i));
    const auto cell = hn::MulAdd(hn::Mul(hidden, output), tanh_slope(d, bounded), hn::LoadU(d, row.cell_gradient + i));
    const auto store = [&](std::size_t which, auto value)
                           HWY_ATTR { hn::StoreU(value, d, row.gate_gradients + which * size + i); };
    store(0, hn::Mul(hn::Mul(cell, candidate), sigmoid_slope(d, input)));
    store(1, hn::Mul(hn::Mul(cell, hn::LoadU(d, row.cell + i)), sigmoid_slope(d, forget)));
    store(2, hn::Mul(hn::Mul(cell, input), tanh_slope(d, candidate)));
    store(3, hn::Mul(hn::Mul(hidden, bounded), sigmoid_slope(d, output)));
    hn::StoreU(hn::Mul(cell, forget), d, row.cell_gradient + i);
    hn::StoreU(hn::Zero(d), d, row.direct + i);
  });
}

/// Computes a GRU cell with gates r, z, n: n = tanh(x_n + r h_n), h' = (1 - z) n + z h. Source: arXiv:1406.1078, in the
/// form of cuDNN and PyTorch, where r multiplies after the product.
void gru_forward(const StepForward& row) {
  const std::size_t size = row.rows.hidden;
  for_each_element(size, [&](auto d, std::size_t i) HWY_ATTR {
    const auto input = [&](std::size_t gate) HWY_ATTR { return hn::LoadU(d, row.gates + gate * size + i); };
    const auto recurrent = [&](std::size_t gate) HWY_ATTR {
      return hn::Add(hn::LoadU(d, row.recurrent + gate * size + i), hn::LoadU(d, row.bias + gate * size + i));
    };
    const auto reset = sigmoid(d, hn::Add(input(0), recurrent(0)));
    const auto update = sigmoid(d, hn::Add(input(1), recurrent(1)));
    const auto kept = recurrent(2);
    const auto candidate = hn::Tanh(d, hn::MulAdd(reset, kept, input(2)));
    const auto previous = hn::LoadU(d, row.previous + i);
    hn::StoreU(reset, d, row.gates + i);
    hn::StoreU(update, d, row.gates + size + i);
    hn::StoreU(candidate, d, row.gates + 2 * size + i);
    hn::StoreU(kept, d, row.kept + i);
    hn::StoreU(hn::MulAdd(update, hn::Sub(previous, candidate), candidate), d, row.hidden + i);
  });
}

void gru_backward(const StepBackward& row) {
  const std::size_t size = row.rows.hidden;
  for_each_element(size, [&](auto d, std::size_t i) HWY_ATTR {
    const auto gate = [&](std::size_t which) HWY_ATTR { return hn::LoadU(d, row.gates + which * size + i); };
    const auto reset = gate(0), update = gate(1), candidate = gate(2);
    const auto hidden = hn::Add(hn::Add(hn::LoadU(d, row.output_gradient + i), hn::LoadU(d, row.through_product + i)),
                                hn::LoadU(d, row.direct + i));
    const auto to_candidate = hn::Mul(hn::Mul(hidden, hn::Sub(hn::Set(d, 1.0f), update)), tanh_slope(d, candidate));
    const auto to_update =
        hn::Mul(hn::Mul(hidden, hn::Sub(hn::LoadU(d, row.previous + i), candidate)), sigmoid_slope(d, update));
    const auto to_reset = hn::Mul(hn::Mul(to_candidate, hn::LoadU(d, row.kept + i)), sigmoid_slope(d, reset));
    hn::StoreU(to_reset, d, row.gate_gradients + i);
    hn::StoreU(to_update, d, row.gate_gradients + size + i);
    hn::StoreU(to_candidate, d, row.gate_gradients + 2 * size + i);
    hn::StoreU(to_reset, d, row.recurrent_gradients + i);
    hn::StoreU(to_update, d, row.recurrent_gradients + size + i);
    hn::StoreU(hn::Mul(to_candidate, reset), d, row.recurrent_gradients + 2 * size + i);
    hn::StoreU(hn::Mul(hidden, update), d, row.direct + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
namespace {

HWY_EXPORT(lstm_forward);
HWY_EXPORT(lstm_backward);
HWY_EXPORT(gru_forward);
HWY_EXPORT(gru_backward);

const std::int32_t* place_cpu(const Device&, std::span<const std::int32_t> lengths) {
  return lengths.empty() ? nullptr : lengths.data();
}

bool is_valid(const StepRows& rows, std::size_t sample) {
  return rows.lengths == nullptr || static_cast<std::int64_t>(rows.step) < rows.lengths[sample];
}

void forward_cpu(const Device&, Cell cell, const StepForward& step) {
  const std::size_t hidden = step.rows.hidden, gates = static_cast<std::size_t>(gates_of(cell)) * hidden;
  const bool lstm = cell == Cell::kLstm;
  for_each_row(step.rows.batch, gates, [&](std::size_t, std::size_t sample) {
    const std::size_t at = sample * hidden;
    if (!is_valid(step.rows, sample)) {
      std::copy_n(step.previous + at, hidden, step.hidden + at);
      if (lstm) std::copy_n(step.cell + at, hidden, step.next_cell + at);
      return;
    }
    StepForward row = step;
    row.gates += sample * gates;
    row.recurrent += sample * gates;
    for (const float** state : {&row.previous, &row.cell})
      if (*state != nullptr) *state += at;
    for (float** state : {&row.hidden, &row.next_cell, &row.kept})
      if (*state != nullptr) *state += at;
    lstm ? HWY_DYNAMIC_DISPATCH(lstm_forward)(row) : HWY_DYNAMIC_DISPATCH(gru_forward)(row);
  });
}

void backward_cpu(const Device&, Cell cell, const StepBackward& step) {
  const std::size_t hidden = step.rows.hidden, gates = static_cast<std::size_t>(gates_of(cell)) * hidden;
  const bool lstm = cell == Cell::kLstm;
  for_each_row(step.rows.batch, gates, [&](std::size_t, std::size_t sample) {
    const std::size_t at = sample * hidden, gate = sample * gates;
    if (!is_valid(step.rows, sample)) {
      std::fill_n(step.gate_gradients + gate, gates, 0.0f);
      std::fill_n(step.recurrent_gradients + gate, gates, 0.0f);
      for (std::size_t unit = at; unit < at + hidden; ++unit) step.direct[unit] += step.through_product[unit];
      return;
    }
    StepBackward row = step;
    for (float** gradient : {&row.gate_gradients, &row.recurrent_gradients}) *gradient += gate;
    row.gates += gate;
    for (const float** state : {&row.kept, &row.previous, &row.cell, &row.output_gradient, &row.through_product})
      if (*state != nullptr) *state += at;
    for (float** state : {&row.direct, &row.cell_gradient}) *state += at;
    lstm ? HWY_DYNAMIC_DISPATCH(lstm_backward)(row) : HWY_DYNAMIC_DISPATCH(gru_backward)(row);
  });
}

std::unique_ptr<RecurrentPlan> make_cpu(const Device& device, const RecurrentSpec& spec) {
  return make_stepped_recurrent(device, spec, {place_cpu, forward_cpu, backward_cpu});
}

}  // namespace
}  // namespace detail

constinit decltype(make_recurrent_plan) make_recurrent_plan("recurrent", detail::make_cpu, has_math<RecurrentSpec>);

}  // namespace dragonn::kernels
#endif

// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/recurrent_cells.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

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

void lstm_forward_row(const StepForward& row) {
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

void lstm_backward_row(const StepBackward& row) {
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

void gru_forward_row(const StepForward& row) {
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

void gru_backward_row(const StepBackward& row) {
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
namespace dragonn::kernels::detail {

HWY_EXPORT(lstm_forward_row);
HWY_EXPORT(lstm_backward_row);
HWY_EXPORT(gru_forward_row);
HWY_EXPORT(gru_backward_row);

void lstm_forward(const StepForward& row) {
  HWY_DYNAMIC_DISPATCH(lstm_forward_row)(row);
}
void lstm_backward(const StepBackward& row) {
  HWY_DYNAMIC_DISPATCH(lstm_backward_row)(row);
}
void gru_forward(const StepForward& row) {
  HWY_DYNAMIC_DISPATCH(gru_forward_row)(row);
}
void gru_backward(const StepBackward& row) {
  HWY_DYNAMIC_DISPATCH(gru_backward_row)(row);
}

}  // namespace dragonn::kernels::detail
#endif

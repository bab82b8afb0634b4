// SPDX-License-Identifier: MIT
#include "kernels/nn/recurrent.h"

#include <algorithm>
#include <array>

#include "kernels/nn/elementwise.h"
#include "kernels/nn/matrix_product.h"
#include "kernels/nn/recurrent_steps.h"

namespace dragonn::kernels {
namespace {

/// Cuts memory into pieces that begin on cache lines.
template <class T>
class Cutter {
 public:
  explicit Cutter(View<T> memory) : rest_(memory) {}
  View<T> take(std::size_t floats) {
    const View<T> piece = rest_.subview(0, floats);
    rest_ = rest_.subview(aligned_floats(floats), rest_.size() - aligned_floats(floats));
    return piece;
  }
  View<T> rest() const { return rest_; }

 private:
  View<T> rest_;
};

/// Values that are saved from forward to backward. A sequence with steps + 1 states begins (in reverse: ends) with the
/// state that the pass starts from. The states before and after step t are `before + t` and `after + t`.
template <class T>
struct Saved {
  View<T> hidden;      // [steps + 1, batch, hidden]
  View<T> projection;  // the input product's own
  View<T> gates;       // [steps, batch, gates * hidden]
  View<T> cells;       // [steps + 1, batch, hidden]
  View<T> kept;        // [steps, batch, hidden]
};

class SteppedRecurrent final : public RecurrentPlan {
 public:
  SteppedRecurrent(const Device& device, const RecurrentSpec& spec, const detail::StepFunctions& functions)
      : device_(device),
        functions_(functions),
        spec_(spec),
        steps_(static_cast<std::size_t>(spec.steps)),
        batch_(static_cast<std::size_t>(spec.batch)),
        hidden_(static_cast<std::size_t>(spec.hidden)),
        gates_(static_cast<std::size_t>(gates_of(spec.cell) * spec.hidden)),
        projection_(
            make_linear_plan(device, {spec.steps * spec.batch, spec.inputs, gates_of(spec.cell) * spec.hidden, true,
                                      spec.training, spec.input_gradient, ElementType::kFloat32, spec.math})),
        step_(make_packed_product(device,
                                  {spec.batch, spec.hidden, gates_of(spec.cell) * spec.hidden, true, spec.math})) {
    if (!spec.training) return;
    recurrent_gradient_ =
        make_linear_plan(device, {spec.steps * spec.batch, spec.hidden, gates_of(spec.cell) * spec.hidden, true, true,
                                  false, ElementType::kFloat32, spec.math});
    step_back_ =
        make_packed_product(device, {spec.batch, gates_of(spec.cell) * spec.hidden, spec.hidden, false, spec.math});
  }

  PlanMemory memory() const override {
    PlanMemory memory;
    memory.saved = aligned_floats(detail::saved_before_hidden(spec_) + steps_ * row()) +
                   aligned_floats(projection_->memory().saved) + aligned_floats(steps_ * batch_ * gates_) +
                   (lstm() ? aligned_floats((steps_ + 1) * row()) : 0) + aligned_floats(steps_ * row());
    memory.forward_scratch = std::max(projection_->memory().forward_scratch,
                                      aligned_floats(batch_ * gates_) + aligned_floats(step_->packed_floats()) +
                                          aligned_floats(step_->scratch_floats()));
    if (!spec_.training) return memory;
    memory.backward_scratch =
        (lstm() ? 1 : 2) * aligned_floats(steps_ * batch_ * gates_) + 3 * aligned_floats(row()) +
        std::max({aligned_floats(step_back_->packed_floats()) + aligned_floats(step_back_->scratch_floats()),
                  projection_->memory().backward_scratch, recurrent_gradient_->memory().backward_scratch});
    return memory;
  }

  void forward(const RecurrentForward& arguments) override {
    const Saved<float> saved = cut(arguments.saved);
    const TypedView<const float> input = arguments.input;
    const View<const float> parameters[] = {arguments.weights.input, arguments.weights.input_bias};
    projection_->forward({.inputs = {&input, 1},
                          .parameters = parameters,
                          .output = saved.gates,
                          .saved = saved.projection,
                          .scratch = arguments.scratch});
    const auto begin = [&](View<float> sequence, std::size_t which) {
      const View<float> target = sequence.subview((spec_.reverse ? steps_ : 0) * row(), row());
      arguments.states.empty() ? fill(0, target) : copy(arguments.states[which], target);
    };
    begin(saved.hidden, 0);
    if (lstm()) begin(saved.cells, 1);
    Cutter<float> scratch(arguments.scratch);
    const View<float> recurrent = scratch.take(batch_ * gates_);
    const View<float> packed = scratch.take(step_->packed_floats());
    const View<const float> weights = step_->pack(arguments.weights.recurrent, packed, scratch.rest());
    const std::int32_t* lengths = functions_.place(device_, arguments.lengths);
    for (std::size_t i = 0; i < steps_; ++i) {
      const std::size_t t = spec_.reverse ? steps_ - 1 - i : i;
      const std::size_t from = before(t) * row(), to = after(t) * row();
      step_->run(saved.hidden.subview(from, row()), weights, recurrent, scratch.rest());
      functions_.forward(device_, spec_.cell,
                         {{batch_, hidden_, t, lengths},
                          saved.gates.data() + t * batch_ * gates_,
                          recurrent.data(),
                          arguments.weights.recurrent_bias.data(),
                          saved.hidden.data() + from,
                          lstm() ? saved.cells.data() + from : nullptr,
                          saved.hidden.data() + to,
                          lstm() ? saved.cells.data() + to : nullptr,
                          saved.kept.data() + t * row()});
    }
    const std::size_t last = (spec_.reverse ? 0 : steps_) * row();
    if (arguments.states.empty()) return;
    copy(saved.hidden.subview(last, row()), arguments.states[0]);
    if (lstm()) copy(saved.cells.subview(last, row()), arguments.states[1]);
  }

  View<const float> hidden(View<const float> saved) const override {
    return cut(saved).hidden.subview(after(0) * row(), steps_ * row());
  }

  void backward(const RecurrentBackward& arguments) override {
    const Saved<const float> saved = cut(arguments.saved);
    Cutter<float> scratch(arguments.scratch);
    const View<float> gate_gradients = scratch.take(steps_ * batch_ * gates_);
    const View<float> recurrent_gradients = lstm() ? gate_gradients : scratch.take(steps_ * batch_ * gates_);
    run_steps_back(arguments, saved, gate_gradients, recurrent_gradients, scratch);
    const auto& weights = arguments.weights;
    const auto& gradients = arguments.gradients;
    differentiate(*recurrent_gradient_, saved.hidden.subview(before(0) * row(), steps_ * row()), weights.recurrent,
                  recurrent_gradients, {}, {gradients.recurrent, gradients.recurrent_bias}, {}, scratch.rest());
    differentiate(*projection_, arguments.input, weights.input, gate_gradients, arguments.input_gradient,
                  {gradients.input, gradients.input_bias}, saved.projection, scratch.rest());
  }

 private:
  bool lstm() const { return spec_.cell == Cell::kLstm; }
  std::size_t row() const { return batch_ * hidden_; }
  std::size_t before(std::size_t t) const { return spec_.reverse ? t + 1 : t; }
  std::size_t after(std::size_t t) const { return spec_.reverse ? t : t + 1; }

  template <class T>
  Saved<T> cut(View<T> memory) const {
    Cutter<T> cutter(memory);
    Saved<T> saved;
    const std::size_t first = detail::saved_before_hidden(spec_);
    saved.hidden = cutter.take(first + steps_ * row()).subview(first - row(), (steps_ + 1) * row());
    saved.projection = cutter.take(projection_->memory().saved);
    saved.gates = cutter.take(steps_ * batch_ * gates_);
    if (lstm()) saved.cells = cutter.take((steps_ + 1) * row());
    saved.kept = cutter.take(steps_ * row());
    return saved;
  }

  /// Runs backward of a linear map.
  static void differentiate(Plan& plan, TypedView<const float> input, View<const float> weights,
                            TypedView<const float> output_gradient, TypedView<float> input_gradient,
                            const std::array<View<float>, 2>& parameter_gradients, View<const float> saved,
                            View<float> scratch) {
    plan.backward({.inputs = {&input, 1},
                   .parameters = {&weights, 1},
                   .output_gradients = {&output_gradient, 1},
                   .input_gradients = {&input_gradient, 1},
                   .parameter_gradients = parameter_gradients,
                   .saved = saved,
                   .scratch = scratch});
  }

  void run_steps_back(const RecurrentBackward& arguments, const Saved<const float>& saved, View<float> gate_gradients,
                      View<float> recurrent_gradients, Cutter<float> scratch) {
    // The gradients that flow from step to step, [batch, hidden] each.
    const View<float> through_product = scratch.take(row()), direct = scratch.take(row()), cell = scratch.take(row());
    for (const View<float>& part : {through_product, direct, cell}) fill(0, part);
    const View<float> packed = scratch.take(step_back_->packed_floats());
    const View<const float> weights = step_back_->pack(arguments.weights.recurrent, packed, scratch.rest());
    const std::int32_t* lengths = functions_.place(device_, arguments.lengths);
    for (std::size_t i = steps_; i-- > 0;) {
      const std::size_t t = spec_.reverse ? steps_ - 1 - i : i;
      const std::size_t from = before(t) * row(), gates = t * batch_ * gates_;
      functions_.backward(device_, spec_.cell,
                          {{batch_, hidden_, t, lengths},
                           saved.gates.data() + gates,
                           saved.kept.data() + t * row(),
                           saved.hidden.data() + from,
                           lstm() ? saved.cells.data() + from : nullptr,
                           arguments.output_gradient.data() + t * row(),
                           through_product.data(),
                           direct.data(),
                           cell.data(),
                           gate_gradients.data() + gates,
                           recurrent_gradients.data() + gates});
      if (i == 0) break;  // nothing wants the gradient of the state that the pass started from
      step_back_->run(recurrent_gradients.subview(t * batch_ * gates_, batch_ * gates_), weights, through_product,
                      scratch.rest());
    }
  }

  Device device_;
  detail::StepFunctions functions_;
  RecurrentSpec spec_;
  std::size_t steps_, batch_, hidden_;
  std::size_t gates_;                         // all gates' units: rows of the weights
  std::unique_ptr<Plan> projection_;          // of the input, all steps
  std::unique_ptr<PackedProduct> step_;       // hidden state to gates
  std::unique_ptr<Plan> recurrent_gradient_;  // only its gradient of the weights is used
  std::unique_ptr<PackedProduct> step_back_;  // gradient of the gates to that of the hidden state
};

}  // namespace

std::unique_ptr<RecurrentPlan> detail::make_stepped_recurrent(const Device& device, const RecurrentSpec& spec,
                                                              const StepFunctions& functions) {
  return std::make_unique<SteppedRecurrent>(device, spec, functions);
}

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
#include "kernels/nn/linear.h"

#include "core/error.h"
#include "kernels/nn/matrix_product.h"

namespace dragonn::kernels {
namespace {

using detail::Matrix;
using detail::multiply;
using detail::transpose;

/// A linear map by products with plain weights. The layouts that oneDNN would choose for them are slower for almost
/// every shape: the input's gradient takes up to twice as long in them, and weights and their gradient are copied in
/// every step.
class Linear final : public WeightedPlan {
 public:
  Linear(const Device&, const LinearSpec& spec) : spec_(spec) {}

  PlanMemory memory() const override { return {}; }

  void forward(const WeightedForward& arguments) override {
    float* output = arguments.output.data();
    if (spec_.bias) detail::fill_rows(arguments.bias.data(), spec_.batch, spec_.outputs, output);
    multiply(input_of(arguments), transpose(weights_of(arguments)), spec_.bias ? 1 : 0, output);
  }

  void backward(const WeightedBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    const Matrix gradient{arguments.output_gradient.data(), spec_.batch, spec_.outputs};
    if (spec_.bias) detail::sum_columns(gradient, arguments.bias_gradient.data());
    multiply(transpose(gradient), input_of(arguments), 0, arguments.weights_gradient.data());
    if (spec_.input_gradient) multiply(gradient, weights_of(arguments), 0, arguments.input_gradient.data());
  }

 private:
  Matrix input_of(const auto& arguments) const { return {arguments.input.data(), spec_.batch, spec_.inputs}; }
  Matrix weights_of(const auto& arguments) const { return {arguments.weights.data(), spec_.outputs, spec_.inputs}; }

  LinearSpec spec_;
};

}  // namespace

constinit decltype(make_linear_plan) make_linear_plan("linear", construct_plan<Linear, WeightedPlan, LinearSpec>);

}  // namespace dragonn::kernels

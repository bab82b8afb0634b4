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
class Linear final : public Plan {
 public:
  Linear(const Device&, const LinearSpec& spec) : spec_(spec) {}

  void forward(const ForwardPass& pass) override {
    float* output = pass.output.data();
    if (spec_.bias) detail::fill_rows(bias_of(pass.parameters).data(), spec_.batch, spec_.outputs, output);
    multiply(input_of(pass), transpose(weights_of(pass)), spec_.bias ? 1 : 0, output);
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    const Matrix gradient{pass.output_gradients[0].data(), spec_.batch, spec_.outputs};
    if (spec_.bias) detail::sum_columns(gradient, bias_of(pass.parameter_gradients).data());
    multiply(transpose(gradient), input_of(pass), 0, pass.parameter_gradients[0].data());
    if (spec_.input_gradient) multiply(gradient, weights_of(pass), 0, pass.input_gradients[0].data());
  }

 private:
  Matrix input_of(const auto& pass) const { return {pass.inputs[0].data(), spec_.batch, spec_.inputs}; }
  Matrix weights_of(const auto& pass) const { return {pass.parameters[0].data(), spec_.outputs, spec_.inputs}; }

  LinearSpec spec_;
};

}  // namespace

constinit decltype(make_linear_plan) make_linear_plan("linear", construct_plan<Linear, Plan, LinearSpec>);

}  // namespace dragonn::kernels

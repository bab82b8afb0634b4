// SPDX-License-Identifier: MIT
#include "kernels/nn/linear.h"

#include "kernels/nn/onednn_weighted.h"

namespace dragonn::kernels {
namespace {

/// Describes the passes on plain weights. The layouts that oneDNN would choose by itself are slower for almost every
/// shape: the input's gradient takes up to twice as long in them, and weights and their gradient are copied in every
/// step.
onednn::WeightedDescriptions describe_primitives(const LinearSpec& spec) {
  using namespace dnnl;
  using tag = memory::format_tag;
  const auto float32 = memory::data_type::f32;
  const memory::desc input({spec.batch, spec.inputs}, float32, tag::nc);
  const memory::desc output({spec.batch, spec.outputs}, float32, tag::nc);
  const memory::desc weights({spec.outputs, spec.inputs}, float32, tag::oi);
  const memory::desc bias = spec.bias ? memory::desc({spec.outputs}, float32, tag::x) : memory::desc();
  const primitive_attr attributes = onednn::user_scratchpad();
  const inner_product_forward::primitive_desc forward(
      {spec.training ? prop_kind::forward_training : prop_kind::forward_inference, input, weights, bias, output},
      attributes, onednn::engine());
  onednn::WeightedDescriptions descriptions{forward, {}, {}, weights};
  if (!spec.training) return descriptions;
  descriptions.backward_weights = inner_product_backward_weights::primitive_desc({input, weights, bias, output},
                                                                                 attributes, onednn::engine(), forward);
  if (spec.input_gradient)
    descriptions.backward_data =
        inner_product_backward_data::primitive_desc({input, weights, output}, attributes, onednn::engine(), forward);
  return descriptions;
}

std::unique_ptr<WeightedPlan> make_cpu(const Device&, const LinearSpec& spec) {
  return onednn::translate_errors(
      fmt::format("linear map of [{}, {}] to {} outputs", spec.batch, spec.inputs, spec.outputs),
      [&] { return onednn::make_weighted_plan(describe_primitives(spec)); });
}

}  // namespace

constinit decltype(make_linear_plan) make_linear_plan("linear", make_cpu);

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
#include "kernels/convolution.h"

#include "kernels/onednn_weighted.h"

namespace dragonn::kernels {
namespace {

using dnnl::memory;

/// oneDNN's descriptions of one convolution's tensors.
struct Tensors {
  memory::desc input, output, bias, any_weights, plain_weights;
  memory::dims strides, padding_before, padding_after;
};

memory::desc weights(const ConvolutionSpec& spec, memory::format_tag plain, memory::format_tag plain_grouped) {
  const memory::dim inputs = spec.channels / spec.groups;
  if (spec.groups == 1)
    return {
        {spec.output_channels, inputs, spec.vertical.kernel, spec.horizontal.kernel}, memory::data_type::f32, plain};
  return {{spec.groups, spec.output_channels / spec.groups, inputs, spec.vertical.kernel, spec.horizontal.kernel},
          memory::data_type::f32,
          plain_grouped};
}

Tensors describe(const ConvolutionSpec& spec) {
  using tag = memory::format_tag;
  const auto float32 = memory::data_type::f32;
  // Activations are held to NHWC: left to itself, oneDNN may choose a blocked layout and reorders around every layer.
  Tensors tensors;
  tensors.input = {{spec.batch, spec.channels, spec.height, spec.width}, float32, tag::nhwc};
  tensors.output = {
      {spec.batch, spec.output_channels, spec.vertical.outputs(spec.height), spec.horizontal.outputs(spec.width)},
      float32,
      tag::nhwc};
  if (spec.bias) tensors.bias = {{spec.output_channels}, float32, tag::x};
  tensors.any_weights = weights(spec, tag::any, tag::any);
  tensors.plain_weights = weights(spec, tag::hwio, tag::hwigo);
  tensors.strides = {spec.vertical.stride, spec.horizontal.stride};
  tensors.padding_before = {spec.vertical.padding, spec.horizontal.padding};
  tensors.padding_after = {spec.vertical.padding_after(spec.height), spec.horizontal.padding_after(spec.width)};
  return tensors;
}

onednn::WeightedDescriptions describe_primitives(const ConvolutionSpec& spec) {
  using namespace dnnl;
  const Tensors t = describe(spec);
  const primitive_attr attributes = onednn::user_scratchpad();
  const auto direct = algorithm::convolution_direct;
  const convolution_forward::primitive_desc forward(
      {spec.training ? prop_kind::forward_training : prop_kind::forward_inference, direct, t.input, t.any_weights,
       t.bias, t.output, t.strides, t.padding_before, t.padding_after},
      attributes, onednn::engine());
  onednn::WeightedDescriptions descriptions{forward, {}, {}, t.plain_weights};
  if (!spec.training) return descriptions;
  descriptions.backward_weights = convolution_backward_weights::primitive_desc(
      {direct, t.input, t.any_weights, t.bias, t.output, t.strides, t.padding_before, t.padding_after}, attributes,
      onednn::engine(), forward);
  if (spec.input_gradient)
    descriptions.backward_data = convolution_backward_data::primitive_desc(
        {direct, t.input, t.any_weights, t.output, t.strides, t.padding_before, t.padding_after}, attributes,
        onednn::engine(), forward);
  return descriptions;
}

std::unique_ptr<WeightedPlan> make_cpu(const Device&, const ConvolutionSpec& spec) {
  const auto make = [&] { return onednn::make_weighted_plan(describe_primitives(spec)); };
  return onednn::translate_errors(fmt::format("convolution {}x{} of [{}, {}, {}, {}] to {} channels in {} groups",
                                              spec.vertical.kernel, spec.horizontal.kernel, spec.batch, spec.height,
                                              spec.width, spec.channels, spec.output_channels, spec.groups),
                                  make);
}

}  // namespace

ConvolutionTable& convolution_table() {
  static ConvolutionTable table("convolution", make_cpu);
  return table;
}

std::unique_ptr<WeightedPlan> make_convolution_plan(const Device& device, const ConvolutionSpec& spec) {
  return convolution_table().at(device)(device, spec);
}

}  // namespace dragonn::kernels

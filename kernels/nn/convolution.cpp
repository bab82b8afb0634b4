// SPDX-License-Identifier: MIT
#include "kernels/nn/convolution.h"

#include <algorithm>
#include <string_view>

#include "kernels/nn/cpu_convolutions.h"
#include "kernels/nn/onednn.h"

namespace dragonn::kernels {
namespace {

using dnnl::memory;

/// The descriptions of one convolution's tensors for oneDNN.
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
  // Activations are held to NHWC: left to itself, oneDNN may choose a blocked layout and reorder around every layer.
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

/// The longest output row for which another kernel than oneDNN's first choice is taken. It prefers "brgconv", whose
/// tiles are pieces of one output row. If rows are shorter than a tile, the kernel that it ranks next is faster: 1.5
/// times at 4 x 4 pixels of 512 channels (AVX-512, one thread).
constexpr std::int64_t kShortRow = 7;
/// The most pixels for which the gradient of the weights is a matrix product with the patches of the whole batch. The
/// convolution's own kernel sweeps all weights once per image, which costs more for few pixels: 3.5 times at 2 x 2
/// pixels of 512 channels, 1.1 times at 4 x 4.
constexpr std::int64_t kFewPixels = 16;

dnnl::convolution_forward::primitive_desc describe_forward(const ConvolutionSpec& spec, const Tensors& t) {
  using namespace dnnl;
  const convolution_forward::desc operation(spec.training ? prop_kind::forward_training : prop_kind::forward_inference,
                                            algorithm::convolution_direct, t.input, t.any_weights, t.bias, t.output,
                                            t.strides, t.padding_before, t.padding_after);
  const convolution_forward::primitive_desc first(operation, onednn::user_scratchpad(), onednn::engine());
  const auto is = [](const auto& description, std::string_view kind) {
    return std::string_view(description.impl_info_str()).starts_with(kind);
  };
  if (!is(first, "brgconv:") || spec.horizontal.outputs(spec.width) > kShortRow) return first;
  convolution_forward::primitive_desc next(operation, onednn::user_scratchpad(), onednn::engine());
  return next.next_impl() && is(next, "jit:avx512") ? next : first;
}

/// Describes the gradient of the weights as a product of patches and output gradients.
dnnl::inner_product_backward_weights::primitive_desc describe_patch_product(const ConvolutionSpec& spec,
                                                                            const Patches& patches) {
  using namespace dnnl;
  using tag = memory::format_tag;
  const auto float32 = memory::data_type::f32;
  const memory::desc input({patches.rows(), patches.columns()}, float32, tag::nc);
  const memory::desc output({patches.rows(), spec.output_channels}, float32, tag::nc);
  const memory::desc hwio_weights({spec.output_channels, patches.columns()}, float32, tag::io);
  const memory::desc bias = spec.bias ? memory::desc({spec.output_channels}, float32, tag::x) : memory::desc();
  const primitive_attr attributes = onednn::user_scratchpad();
  const inner_product_forward::primitive_desc forward({prop_kind::forward_training, input, hwio_weights, bias, output},
                                                      attributes, onednn::engine());
  return {{input, hwio_weights, bias, output}, attributes, onednn::engine(), forward};
}

onednn::WeightedDescriptions describe_primitives(const ConvolutionSpec& spec) {
  using namespace dnnl;
  const Tensors t = describe(spec);
  const primitive_attr attributes = onednn::user_scratchpad();
  const convolution_forward::primitive_desc forward = describe_forward(spec, t);
  onednn::WeightedDescriptions descriptions{forward, {}, {}, t.plain_weights};
  if (!spec.training) return descriptions;
  const auto direct = algorithm::convolution_direct;
  if (spec.groups == 1 && spec.vertical.outputs(spec.height) * spec.horizontal.outputs(spec.width) <= kFewPixels) {
    descriptions.patches = Patches(spec);
    descriptions.backward_weights = describe_patch_product(spec, *descriptions.patches);
  } else {
    descriptions.backward_weights = convolution_backward_weights::primitive_desc(
        {direct, t.input, t.any_weights, t.bias, t.output, t.strides, t.padding_before, t.padding_after}, attributes,
        onednn::engine(), forward);
  }
  if (spec.input_gradient)
    descriptions.backward_data = convolution_backward_data::primitive_desc(
        {direct, t.input, t.any_weights, t.output, t.strides, t.padding_before, t.padding_after}, attributes,
        onednn::engine(), forward);
  return descriptions;
}

/// The fewest kernel rows per output row for which strips are faster than the patches that oneDNN copies where it has
/// no kernel. With 5 of them (11 x 41, strides 2) strips are 1.7 times faster from 1 to 32 channels and 2.5 times to 8,
/// with 1 of them 0.8 times.
constexpr std::int64_t kManyRows = 4;

/// Returns whether oneDNN is slow at a part of this convolution. Kernels wider than 14 that step by 2 leave it with its
/// reference, which is some 500 times slower than strips with 8 channels. With strides its kernels for AVX2 reach half
/// of the rate of its products: with 64 and more channels, strips take 0.5 to 0.8 times as long backward, and about as
/// long forward.
bool strips_are_faster(const ConvolutionSpec& spec, const onednn::WeightedDescriptions& descriptions) {
  constexpr std::int64_t kFewestChannelsOfAvx2 = 64;
  if (spec.training && spec.groups == 1 && spec.vertical.stride > 1 && spec.vertical.kernel > 1 &&
      std::min(spec.channels, spec.output_channels) >= kFewestChannelsOfAvx2 && !onednn::uses_avx512())
    return true;
  const auto slow = [&](const dnnl::primitive_desc_base& description) {
    if (description.get(true) == nullptr) return false;
    const std::string_view kind = description.impl_info_str();
    return kind.starts_with("ref") ||
           (kind.find("gemm") != std::string_view::npos && spec.vertical.kernel >= kManyRows * spec.vertical.stride);
  };
  return slow(descriptions.forward) || slow(descriptions.backward_data) ||
         (!descriptions.patches && slow(descriptions.backward_weights));
}

std::unique_ptr<Plan> make_cpu(const Device&, const ConvolutionSpec& spec) {
  const auto make = [&] {
    if (winograd_is_faster(spec)) return make_winograd_convolution(spec);
    if (pointwise_is_faster(spec)) return make_pointwise_convolution(spec);
    if (taps_are_faster(spec)) return make_tap_convolution(spec);
    const onednn::WeightedDescriptions descriptions = describe_primitives(spec);
    return strips_are_faster(spec, descriptions) ? make_strip_convolution(spec)
                                                 : onednn::make_weighted_plan(descriptions);
  };
  return onednn::translate_errors(fmt::format("convolution {}x{} of [{}, {}, {}, {}] to {} channels in {} groups",
                                              spec.vertical.kernel, spec.horizontal.kernel, spec.batch, spec.height,
                                              spec.width, spec.channels, spec.output_channels, spec.groups),
                                  make);
}

}  // namespace

constinit decltype(make_convolution_plan) make_convolution_plan("convolution", make_cpu);

}  // namespace dragonn::kernels

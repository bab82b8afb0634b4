// SPDX-License-Identifier: MIT
#include "kernels/nn/pooling.h"

#include <algorithm>

#include "kernels/nn/onednn.h"

namespace dragonn::kernels {
namespace {

/// Calls copy(input offset, output offset) for every pixel that has an output, with the offsets of its first channel in
/// both.
template <class Copy>
void for_each_kept_pixel(const PaddedShortcutSpec& spec, const Copy& copy) {
  std::size_t output = (spec.output_channels - spec.channels) / 2;  // behind the zeros
  for (std::size_t image = 0; image < spec.batch; ++image) {
    for (std::size_t row = 0; row < spec.height; row += spec.stride) {
      for (std::size_t column = 0; column < spec.width; column += spec.stride) {
        copy(((image * spec.height + row) * spec.width + column) * spec.channels, output);
        output += spec.output_channels;
      }
    }
  }
}

void forward_cpu(const PaddedShortcutSpec& spec, TypedView<const float> input, TypedView<float> output) {
  std::fill_n(output.data(), output.size(), 0.0f);
  for_each_kept_pixel(spec, [&](std::size_t from, std::size_t to) {
    std::copy_n(input.data() + from, spec.channels, output.data() + to);
  });
}

void backward_cpu(const PaddedShortcutSpec& spec, TypedView<const float> output_gradient,
                  TypedView<float> input_gradient) {
  std::fill_n(input_gradient.data(), input_gradient.size(), 0.0f);
  for_each_kept_pixel(spec, [&](std::size_t to, std::size_t from) {
    std::copy_n(output_gradient.data() + from, spec.channels, input_gradient.data() + to);
  });
}

}  // namespace

constinit decltype(padded_shortcut_forward) padded_shortcut_forward("padded_shortcut_forward", forward_cpu);
constinit decltype(padded_shortcut_backward) padded_shortcut_backward("padded_shortcut_backward", backward_cpu);

namespace {

using namespace dnnl;

class OneDnnPooling final : public Plan {
 public:
  explicit OneDnnPooling(const PoolingSpec& spec) {
    using tag = memory::format_tag;
    const auto float32 = memory::data_type::f32;
    const algorithm kind =
        spec.kind == PoolingKind::kMaximum ? algorithm::pooling_max : algorithm::pooling_avg_exclude_padding;
    const memory::desc input({spec.batch, spec.channels, spec.height, spec.width}, float32, tag::nhwc);
    const memory::desc output(
        {spec.batch, spec.channels, spec.vertical.outputs(spec.height), spec.horizontal.outputs(spec.width)}, float32,
        tag::nhwc);
    const memory::dims strides{spec.vertical.stride, spec.horizontal.stride};
    const memory::dims kernel{spec.vertical.kernel, spec.horizontal.kernel};
    const memory::dims before{spec.vertical.padding, spec.horizontal.padding};
    const memory::dims after{spec.vertical.padding_after(spec.height), spec.horizontal.padding_after(spec.width)};
    const primitive_attr attributes = onednn::user_scratchpad();
    const pooling_forward::primitive_desc forward(
        {spec.training ? prop_kind::forward_training : prop_kind::forward_inference, kind, input, output, strides,
         kernel, before, after},
        attributes, onednn::engine());
    workspace_ = onednn::floats(forward.workspace_desc());
    forward_ = {forward, {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WORKSPACE, DNNL_ARG_SCRATCHPAD}};
    if (!spec.training) return;
    const pooling_backward::primitive_desc backward({kind, input, output, strides, kernel, before, after}, attributes,
                                                    onednn::engine(), forward);
    backward_ = {backward, {DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_WORKSPACE, DNNL_ARG_SCRATCHPAD}};
  }

  PlanMemory memory() const override { return {workspace_, forward_.scratch(), backward_.scratch()}; }

  void forward(const ForwardPass& pass) override {
    forward_.run({pass.inputs[0].data(), pass.output.data(), pass.saved.data(), pass.scratch.data()});
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(backward_, "backward of a plan that was made for evaluation");
    backward_.run(
        {pass.output_gradients[0].data(), pass.input_gradients[0].data(), pass.saved.data(), pass.scratch.data()});
  }

 private:
  std::size_t workspace_ = 0;
  onednn::Execution forward_;
  onednn::Execution backward_;
};

std::unique_ptr<Plan> make_cpu(const Device&, const PoolingSpec& spec) {
  return onednn::make_plan<OneDnnPooling>(
      fmt::format("pooling {}x{} of [{}, {}, {}, {}]", spec.vertical.kernel, spec.horizontal.kernel, spec.batch,
                  spec.height, spec.width, spec.channels),
      spec);
}

}  // namespace

constinit decltype(make_pooling_plan) make_pooling_plan("pooling", make_cpu);

}  // namespace dragonn::kernels

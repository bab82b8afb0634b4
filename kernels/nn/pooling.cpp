// SPDX-License-Identifier: MIT
#include "kernels/nn/pooling.h"

#include "kernels/nn/onednn.h"

namespace dragonn::kernels {
namespace {

using namespace dnnl;

class OneDnnPooling final : public PoolingPlan {
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

  void forward(TypedView<const float> input, TypedView<float> output, View<float> saved, View<float> scratch) override {
    forward_.run({input.data(), output.data(), saved.data(), scratch.data()});
  }

  void backward(TypedView<const float> output_gradient, TypedView<float> input_gradient, View<const float> saved,
                View<float> scratch) override {
    DRAGONN_CHECK(backward_, "backward of a plan that was made for evaluation");
    backward_.run({output_gradient.data(), input_gradient.data(), saved.data(), scratch.data()});
  }

 private:
  std::size_t workspace_ = 0;
  onednn::Execution forward_;
  onednn::Execution backward_;
};

std::unique_ptr<PoolingPlan> make_cpu(const Device&, const PoolingSpec& spec) {
  return onednn::make_plan<OneDnnPooling>(
      fmt::format("pooling {}x{} of [{}, {}, {}, {}]", spec.vertical.kernel, spec.horizontal.kernel, spec.batch,
                  spec.height, spec.width, spec.channels),
      spec);
}

}  // namespace

constinit decltype(make_pooling_plan) make_pooling_plan("pooling", make_cpu);

}  // namespace dragonn::kernels

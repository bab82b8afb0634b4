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
    memory_ = {onednn::floats(forward.workspace_desc()), onednn::floats(forward.scratchpad_desc()), 0};
    forward_ = onednn::Execution(pooling_forward(forward), {{DNNL_ARG_SRC, input},
                                                            {DNNL_ARG_DST, output},
                                                            {DNNL_ARG_WORKSPACE, forward.workspace_desc()},
                                                            {DNNL_ARG_SCRATCHPAD, forward.scratchpad_desc()}});
    if (!spec.training) return;
    const pooling_backward::primitive_desc backward({kind, input, output, strides, kernel, before, after}, attributes,
                                                    onednn::engine(), forward);
    memory_.backward_scratch = onednn::floats(backward.scratchpad_desc());
    backward_ = onednn::Execution(pooling_backward(backward), {{DNNL_ARG_DIFF_DST, output},
                                                               {DNNL_ARG_DIFF_SRC, input},
                                                               {DNNL_ARG_WORKSPACE, forward.workspace_desc()},
                                                               {DNNL_ARG_SCRATCHPAD, backward.scratchpad_desc()}});
  }

  PlanMemory memory() const override { return memory_; }

  void forward(View<const float> input, View<float> output, View<float> saved, View<float> scratch) override {
    forward_.run({input.data(), output.data(), saved.data(), scratch.data()});
  }

  void backward(View<const float> output_gradient, View<float> input_gradient, View<const float> saved,
                View<float> scratch) override {
    DRAGONN_CHECK(backward_, "backward of a plan that was made for evaluation");
    backward_.run({output_gradient.data(), input_gradient.data(), saved.data(), scratch.data()});
  }

 private:
  PlanMemory memory_;
  onednn::Execution forward_;
  onednn::Execution backward_;
};

std::unique_ptr<PoolingPlan> make_cpu(const Device&, const PoolingSpec& spec) {
  return onednn::translate_errors(
      fmt::format("pooling {}x{} of [{}, {}, {}, {}]", spec.vertical.kernel, spec.horizontal.kernel, spec.batch,
                  spec.height, spec.width, spec.channels),
      [&]() -> std::unique_ptr<PoolingPlan> { return std::make_unique<OneDnnPooling>(spec); });
}

}  // namespace

PoolingTable& pooling_table() {
  static PoolingTable table("pooling", make_cpu);
  return table;
}

std::unique_ptr<PoolingPlan> make_pooling_plan(const Device& device, const PoolingSpec& spec) {
  return pooling_table().at(device)(device, spec);
}

}  // namespace dragonn::kernels

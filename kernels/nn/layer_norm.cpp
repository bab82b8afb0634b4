// SPDX-License-Identifier: MIT
#include "kernels/nn/layer_norm.h"

#include "kernels/nn/onednn.h"

namespace dragonn::kernels {
namespace {

using namespace dnnl;

class OneDnnLayerNorm final : public LayerNormPlan {
 public:
  explicit OneDnnLayerNorm(const LayerNormSpec& spec) : rows_(aligned_floats(static_cast<std::size_t>(spec.rows))) {
    const auto flags = normalization_flags::use_scale | normalization_flags::use_shift;
    const memory::desc data({spec.rows, spec.columns}, memory::data_type::f32, memory::format_tag::ab);
    const memory::desc row({spec.rows}, memory::data_type::f32, memory::format_tag::x);
    const layer_normalization_forward::primitive_desc forward(
        {prop_kind::forward_training, data, row, spec.epsilon, flags}, onednn::user_scratchpad(), onednn::engine());
    forward_ = {forward,
                {DNNL_ARG_SRC, DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_DST, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE,
                 DNNL_ARG_SCRATCHPAD}};
    if (!spec.training) return;
    const layer_normalization_backward::primitive_desc backward(
        {prop_kind::backward, data, data, row, spec.epsilon, flags}, onednn::user_scratchpad(), onednn::engine(),
        forward);
    backward_ = {backward,
                 {DNNL_ARG_SRC, DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE, DNNL_ARG_DIFF_DST,
                  DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_SCALE, DNNL_ARG_DIFF_SHIFT, DNNL_ARG_SCRATCHPAD}};
  }

  PlanMemory memory() const override { return {2 * rows_, forward_.scratch(), backward_.scratch()}; }

  void forward(const LayerNormForward& arguments) override {
    float* mean = arguments.saved.data();
    forward_.run({arguments.input.data(), arguments.scale.data(), arguments.shift.data(), arguments.output.data(), mean,
                  mean + rows_, arguments.scratch.data()});
  }

  void backward(const LayerNormBackward& arguments) override {
    DRAGONN_CHECK(backward_, "backward of a plan that was made for evaluation");
    const float* mean = arguments.saved.data();
    backward_.run({arguments.input.data(), arguments.scale.data(), arguments.shift.data(), mean, mean + rows_,
                   arguments.output_gradient.data(), arguments.input_gradient.data(), arguments.scale_gradient.data(),
                   arguments.shift_gradient.data(), arguments.scratch.data()});
  }

 private:
  std::size_t rows_;  // of floats for one number per row
  onednn::Execution forward_;
  onednn::Execution backward_;
};

std::unique_ptr<LayerNormPlan> make_cpu(const Device&, const LayerNormSpec& spec) {
  return onednn::make_plan<OneDnnLayerNorm>(fmt::format("layer norm of [{}, {}]", spec.rows, spec.columns), spec);
}

}  // namespace

constinit decltype(make_layer_norm_plan) make_layer_norm_plan("layer_norm", make_cpu);

}  // namespace dragonn::kernels

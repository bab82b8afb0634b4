// SPDX-License-Identifier: MIT
#include "kernels/nn/normalization.h"
#include "kernels/nn/onednn.h"

namespace dragonn::kernels {
namespace {

using namespace dnnl;

class OneDnnLayerNorm final : public Plan {
 public:
  explicit OneDnnLayerNorm(const LayerNormSpec& spec) : rows_(aligned_floats(static_cast<std::size_t>(spec.rows))) {
    if (!spec.input_gradient) unwanted_ = aligned_floats(static_cast<std::size_t>(spec.rows * spec.columns));
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

  PlanMemory memory() const override { return {2 * rows_, forward_.scratch(), unwanted_ + backward_.scratch()}; }

  void forward(const ForwardPass& pass) override {
    float* mean = pass.saved.data();
    forward_.run({pass.inputs[0].data(), pass.parameters[0].data(), pass.parameters[1].data(), pass.output.data(), mean,
                  mean + rows_, pass.scratch.data()});
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(backward_, "backward of a plan that was made for evaluation");
    const float* mean = pass.saved.data();
    float* scratch = pass.scratch.data();
    // The library always writes the input's gradient.
    float* input_gradient = unwanted_ > 0 ? scratch : pass.input_gradients[0].data();
    backward_.run({pass.inputs[0].data(), pass.parameters[0].data(), pass.parameters[1].data(), mean, mean + rows_,
                   pass.output_gradients[0].data(), input_gradient, pass.parameter_gradients[0].data(),
                   pass.parameter_gradients[1].data(), scratch + unwanted_});
  }

 private:
  std::size_t rows_;          // floats for one number per row
  std::size_t unwanted_ = 0;  // floats for an input gradient that nobody wants
  onednn::Execution forward_;
  onednn::Execution backward_;
};

std::unique_ptr<Plan> make_cpu(const Device&, const LayerNormSpec& spec) {
  return onednn::make_plan<OneDnnLayerNorm>(fmt::format("layer norm of [{}, {}]", spec.rows, spec.columns), spec);
}

}  // namespace

constinit decltype(make_layer_norm_plan) make_layer_norm_plan("layer_norm", make_cpu);

}  // namespace dragonn::kernels

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
    const memory::desc column({spec.columns}, memory::data_type::f32, memory::format_tag::x);
    const memory::desc row({spec.rows}, memory::data_type::f32, memory::format_tag::x);
    const layer_normalization_forward::primitive_desc forward(
        {prop_kind::forward_training, data, row, spec.epsilon, flags}, onednn::user_scratchpad(), onednn::engine());
    const memory::desc scratch = forward.scratchpad_desc();
    forward_scratch_ = onednn::floats(scratch);
    forward_ = onednn::Execution(layer_normalization_forward(forward), {{DNNL_ARG_SRC, data},
                                                                        {DNNL_ARG_SCALE, column},
                                                                        {DNNL_ARG_SHIFT, column},
                                                                        {DNNL_ARG_DST, data},
                                                                        {DNNL_ARG_MEAN, row},
                                                                        {DNNL_ARG_VARIANCE, row},
                                                                        {DNNL_ARG_SCRATCHPAD, scratch}});
    if (spec.training) make_backward(spec, data, row, column, forward);
  }

  PlanMemory memory() const override { return {2 * rows_, forward_scratch_, backward_scratch_}; }

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
  void make_backward(const LayerNormSpec& spec, const memory::desc& data, const memory::desc& row,
                     const memory::desc& column, const layer_normalization_forward::primitive_desc& forward) {
    const auto flags = normalization_flags::use_scale | normalization_flags::use_shift;
    const layer_normalization_backward::primitive_desc backward(
        {prop_kind::backward, data, data, row, spec.epsilon, flags}, onednn::user_scratchpad(), onednn::engine(),
        forward);
    const memory::desc scratch = backward.scratchpad_desc();
    backward_scratch_ = onednn::floats(scratch);
    backward_ = onednn::Execution(layer_normalization_backward(backward), {{DNNL_ARG_SRC, data},
                                                                           {DNNL_ARG_SCALE, column},
                                                                           {DNNL_ARG_SHIFT, column},
                                                                           {DNNL_ARG_MEAN, row},
                                                                           {DNNL_ARG_VARIANCE, row},
                                                                           {DNNL_ARG_DIFF_DST, data},
                                                                           {DNNL_ARG_DIFF_SRC, data},
                                                                           {DNNL_ARG_DIFF_SCALE, column},
                                                                           {DNNL_ARG_DIFF_SHIFT, column},
                                                                           {DNNL_ARG_SCRATCHPAD, scratch}});
  }

  std::size_t rows_;  // of floats for one number per row
  std::size_t forward_scratch_ = 0;
  std::size_t backward_scratch_ = 0;
  onednn::Execution forward_;
  onednn::Execution backward_;
};

std::unique_ptr<LayerNormPlan> make_cpu(const Device&, const LayerNormSpec& spec) {
  return onednn::translate_errors(
      fmt::format("layer norm of [{}, {}]", spec.rows, spec.columns),
      [&]() -> std::unique_ptr<LayerNormPlan> { return std::make_unique<OneDnnLayerNorm>(spec); });
}

}  // namespace

LayerNormTable& layer_norm_table() {
  static LayerNormTable table("layer_norm", make_cpu);
  return table;
}

std::unique_ptr<LayerNormPlan> make_layer_norm_plan(const Device& device, const LayerNormSpec& spec) {
  return layer_norm_table().at(device)(device, spec);
}

}  // namespace dragonn::kernels

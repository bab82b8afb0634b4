// SPDX-License-Identifier: MIT
#include "kernels/nn/local_response.h"

#include "kernels/nn/onednn.h"

namespace dragonn::kernels {
namespace {

using namespace dnnl;

class OneDnnLocalResponse final : public LocalResponsePlan {
 public:
  explicit OneDnnLocalResponse(const LocalResponseSpec& spec) {
    const memory::desc image({spec.batch, spec.channels, spec.height, spec.width}, memory::data_type::f32,
                             memory::format_tag::nhwc);
    const algorithm kind = algorithm::lrn_across_channels;
    const primitive_attr attributes = onednn::user_scratchpad();
    const lrn_forward::primitive_desc forward(
        {spec.training ? prop_kind::forward_training : prop_kind::forward_inference, kind, image, spec.size, spec.alpha,
         spec.beta, spec.k},
        attributes, onednn::engine());
    workspace_ = onednn::floats(forward.workspace_desc());
    forward_ = {forward, {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WORKSPACE, DNNL_ARG_SCRATCHPAD}};
    if (!spec.training) return;
    const lrn_backward::primitive_desc backward({kind, image, image, spec.size, spec.alpha, spec.beta, spec.k},
                                                attributes, onednn::engine(), forward);
    backward_ = {backward,
                 {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_WORKSPACE, DNNL_ARG_SCRATCHPAD}};
  }

  PlanMemory memory() const override { return {workspace_, forward_.scratch(), backward_.scratch()}; }

  void forward(const LocalResponseForward& arguments) override {
    forward_.run({arguments.input.data(), arguments.output.data(), arguments.saved.data(), arguments.scratch.data()});
  }

  void backward(const LocalResponseBackward& arguments) override {
    DRAGONN_CHECK(backward_, "backward of a plan that was made for evaluation");
    backward_.run({arguments.input.data(), arguments.output_gradient.data(), arguments.input_gradient.data(),
                   arguments.saved.data(), arguments.scratch.data()});
  }

 private:
  std::size_t workspace_ = 0;
  onednn::Execution forward_;
  onednn::Execution backward_;
};

std::unique_ptr<LocalResponsePlan> make_cpu(const Device&, const LocalResponseSpec& spec) {
  return onednn::make_plan<OneDnnLocalResponse>(
      fmt::format("local response normalization over {} of [{}, {}, {}, {}]", spec.size, spec.batch, spec.height,
                  spec.width, spec.channels),
      spec);
}

}  // namespace

constinit decltype(make_local_response_plan) make_local_response_plan("local response normalization", make_cpu);

}  // namespace dragonn::kernels

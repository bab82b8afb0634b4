// SPDX-License-Identifier: MIT
#include "kernels/nn/activation.h"

#include "kernels/nn/onednn.h"

namespace dragonn::kernels {
namespace {

using namespace dnnl;

struct Algorithms {
  algorithm forward, backward;
};
/// The algorithms in the order of Activation.
constexpr Algorithms kAlgorithms[] = {{algorithm::eltwise_relu, algorithm::eltwise_relu_use_dst_for_bwd},
                                      {algorithm::eltwise_clip_v2, algorithm::eltwise_clip_v2_use_dst_for_bwd},
                                      {algorithm::eltwise_tanh, algorithm::eltwise_tanh_use_dst_for_bwd},
                                      {algorithm::eltwise_logistic, algorithm::eltwise_logistic_use_dst_for_bwd},
                                      {algorithm::eltwise_gelu_erf, algorithm::eltwise_gelu_erf},
                                      {algorithm::eltwise_gelu_tanh, algorithm::eltwise_gelu_tanh}};

class OneDnnActivation final : public Plan {
 public:
  OneDnnActivation(Activation activation, std::size_t size)
      : reads_input_(activation_backward_reads_input(activation)) {
    const memory::desc data({static_cast<memory::dim>(size)}, memory::data_type::f32, memory::format_tag::x);
    const Algorithms algorithms = kAlgorithms[static_cast<std::size_t>(activation)];
    const float lower = 0, upper = activation == Activation::kClippedRelu ? kReluClip : 0;  // of clipping only
    const eltwise_forward::primitive_desc forward({prop_kind::forward_training, algorithms.forward, data, lower, upper},
                                                  onednn::engine());
    // A backward algorithm that reads the output wants a forward description of the same algorithm as its hint.
    const eltwise_forward::primitive_desc hint({prop_kind::forward_training, algorithms.backward, data, lower, upper},
                                               onednn::engine());
    const eltwise_backward::primitive_desc backward({algorithms.backward, data, data, lower, upper}, onednn::engine(),
                                                    hint);
    forward_ = {forward, {DNNL_ARG_SRC, DNNL_ARG_DST}};
    backward_ = {backward, {reads_input_ ? DNNL_ARG_SRC : DNNL_ARG_DST, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC}};
  }

  void forward(const ForwardPass& pass) override { forward_.run({pass.inputs[0].data(), pass.output.data()}); }
  void backward(const BackwardPass& pass) override {
    const TypedView<const float> value = reads_input_ ? pass.inputs[0] : pass.output;
    backward_.run({value.data(), pass.output_gradients[0].data(), pass.input_gradients[0].data()});
  }

 private:
  bool reads_input_;
  onednn::Execution forward_, backward_;
};

std::unique_ptr<Plan> make_cpu(const Device&, Activation activation, std::size_t size) {
  return onednn::make_plan<OneDnnActivation>(fmt::format("activation of {} elements", size), activation, size);
}

}  // namespace

constinit decltype(make_activation_plan) make_activation_plan("activation", make_cpu);

}  // namespace dragonn::kernels

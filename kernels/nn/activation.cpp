// SPDX-License-Identifier: MIT
#include "kernels/nn/activation.h"

#include "kernels/nn/onednn.h"

namespace dragonn::kernels {
namespace {

using namespace dnnl;

algorithm forward_algorithm(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return algorithm::eltwise_relu;
    case Activation::kClippedRelu:
      return algorithm::eltwise_clip_v2;
    case Activation::kTanh:
      return algorithm::eltwise_tanh;
    case Activation::kSigmoid:
      return algorithm::eltwise_logistic;
    case Activation::kGelu:
      return algorithm::eltwise_gelu_erf;
  }
  throw Error("unknown activation");
}

algorithm backward_algorithm(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return algorithm::eltwise_relu_use_dst_for_bwd;
    case Activation::kClippedRelu:
      return algorithm::eltwise_clip_v2_use_dst_for_bwd;
    case Activation::kTanh:
      return algorithm::eltwise_tanh_use_dst_for_bwd;
    case Activation::kSigmoid:
      return algorithm::eltwise_logistic_use_dst_for_bwd;
    case Activation::kGelu:
      return algorithm::eltwise_gelu_erf;
  }
  throw Error("unknown activation");
}

class OneDnnActivation final : public ActivationPlan {
 public:
  OneDnnActivation(Activation activation, std::size_t size) {
    const memory::desc data({static_cast<memory::dim>(size)}, memory::data_type::f32, memory::format_tag::x);
    const float lower = 0, upper = activation == Activation::kClippedRelu ? kReluClip : 0;  // of clipping only
    const eltwise_forward::primitive_desc forward(
        {prop_kind::forward_training, forward_algorithm(activation), data, lower, upper}, onednn::engine());
    // A backward algorithm that reads the output wants a forward description of the same algorithm as its hint.
    const eltwise_forward::primitive_desc hint(
        {prop_kind::forward_training, backward_algorithm(activation), data, lower, upper}, onednn::engine());
    const eltwise_backward::primitive_desc backward({backward_algorithm(activation), data, data, lower, upper},
                                                    onednn::engine(), hint);
    const int value = activation_backward_reads_input(activation) ? DNNL_ARG_SRC : DNNL_ARG_DST;
    forward_ = onednn::Execution(eltwise_forward(forward), {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, data}});
    backward_ = onednn::Execution(eltwise_backward(backward),
                                  {{value, data}, {DNNL_ARG_DIFF_DST, data}, {DNNL_ARG_DIFF_SRC, data}});
  }

  void forward(View<const float> input, View<float> output) override { forward_.run({input.data(), output.data()}); }
  void backward(View<const float> value, View<const float> output_gradient, View<float> input_gradient) override {
    backward_.run({value.data(), output_gradient.data(), input_gradient.data()});
  }

 private:
  onednn::Execution forward_;
  onednn::Execution backward_;
};

std::unique_ptr<ActivationPlan> make_cpu(const Device&, Activation activation, std::size_t size) {
  return onednn::translate_errors(
      fmt::format("activation of {} elements", size),
      [&]() -> std::unique_ptr<ActivationPlan> { return std::make_unique<OneDnnActivation>(activation, size); });
}

}  // namespace

ActivationTable& activation_table() {
  static ActivationTable table("activation", make_cpu);
  return table;
}

std::unique_ptr<ActivationPlan> make_activation_plan(const Device& device, Activation activation, std::size_t size) {
  return activation_table().at(device)(device, activation, size);
}

}  // namespace dragonn::kernels

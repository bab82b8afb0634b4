// SPDX-License-Identifier: MIT
#include "kernels/nn/attention.h"

#include <fmt/format.h>

#include "layers/layer.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

class Attention final : public Layer {
 public:
  Attention(std::int64_t heads, bool causal) : heads_(heads), causal_(causal) {}

  std::string kind() const override { return fmt::format("{}attention, {} heads", causal_ ? "causal " : "", heads_); }
  LayerTraits traits() const override {
    return {.backward_reads_inputs = true, .backward_reads_output = true, .takes_bf16 = true};
  }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = single_input(kind(), inputs, 3);
    if (input[2] % (3 * heads_) != 0)
      throw ShapeError(
          fmt::format("{} of {}: the features must be a multiple of 3 * heads", kind(), input.to_string()));
    return {input[0], input[1], input[2] / 3};
  }
  double forward_flops(std::span<const Shape> inputs) const override {
    const Shape& input = inputs[0];
    return 2.0 * 2.0 * static_cast<double>(input[0] * input[1] * input[1]) * static_cast<double>(input[2] / 3);
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const Shape& output = context.output;
    return kernels::make_attention_plan(
        context.device, {output[0], output[1], output[2], heads_, causal_, context.mode == Mode::kTrain, context.type});
  }

 private:
  std::int64_t heads_;
  bool causal_;
};

}  // namespace

std::unique_ptr<Layer> attention(std::int64_t heads, bool causal) {
  return std::make_unique<Attention>(heads, causal);
}

}  // namespace dragonn::layers

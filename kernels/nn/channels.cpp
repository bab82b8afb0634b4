// SPDX-License-Identifier: MIT
#include "kernels/nn/channels.h"

#include <algorithm>

#include "kernels/nn/onednn.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {
namespace {

void copy_cpu(const ChannelCopy& shape, TypedView<const float> source, TypedView<float> target) {
  const float* from = source.data() + shape.source_first;
  float* to = target.data() + shape.target_first;
  for_each_piece(shape.pixels, rows_per_piece(shape.channels), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t pixel = begin; pixel < end; ++pixel)
      std::copy_n(from + pixel * shape.source_channels, shape.channels, to + pixel * shape.target_channels);
  });
}

void scale_cpu(const ChannelScale& shape, TypedView<const float> input, TypedView<const float> factors,
               TypedView<float> output) {
  const std::size_t rows = shape.batch * shape.pixels;
  for_each_piece(rows, rows_per_piece(shape.channels), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const float* from = input.data() + row * shape.channels;
      const float* factor = factors.data() + row / shape.pixels * shape.channels;
      float* to = output.data() + row * shape.channels;
      for (std::size_t channel = 0; channel < shape.channels; ++channel) to[channel] = from[channel] * factor[channel];
    }
  });
}

void products_cpu(const ChannelScale& shape, TypedView<const float> input, TypedView<const float> output_gradient,
                  TypedView<float> factor_gradients) {
  const std::size_t sample_size = shape.pixels * shape.channels;
  for_each_piece(shape.batch, rows_per_piece(sample_size), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t sample = begin; sample < end; ++sample) {
      float* sums = factor_gradients.data() + sample * shape.channels;
      std::fill_n(sums, shape.channels, 0.0f);
      for (std::size_t pixel = 0; pixel < shape.pixels; ++pixel) {
        const std::size_t at = sample * sample_size + pixel * shape.channels;
        const float* value = input.data() + at;
        const float* gradient = output_gradient.data() + at;
        for (std::size_t channel = 0; channel < shape.channels; ++channel)
          sums[channel] += value[channel] * gradient[channel];
      }
    }
  });
}

bool check_copy(const ChannelCopy& shape, TypedView<const float> source, TypedView<float> target) {
  if (shape.source_first + shape.channels > shape.source_channels ||
      shape.target_first + shape.channels > shape.target_channels ||
      source.size() != shape.pixels * shape.source_channels || target.size() != shape.pixels * shape.target_channels)
    throw ShapeError(
        fmt::format("copy of {} channels of {} pixels, from {} on of {} to {} on of {}: got {} and {} values",
                    shape.channels, shape.pixels, shape.source_first, shape.source_channels, shape.target_first,
                    shape.target_channels, source.size(), target.size()));
  return true;
}

bool check_scale(const ChannelScale& shape, TypedView<const float> image, std::size_t other, std::size_t factors) {
  if (image.size() != shape.batch * shape.pixels * shape.channels || other != image.size() ||
      factors != shape.batch * shape.channels)
    throw ShapeError(
        fmt::format("channels of {} samples of {} pixels and {} channels: got {} and {} values, {} factors",
                    shape.batch, shape.pixels, shape.channels, image.size(), other, factors));
  return true;
}

}  // namespace

constinit decltype(copy_channels) copy_channels("copy_channels", copy_cpu, check_copy);
constinit decltype(scale_channels) scale_channels("scale_channels", scale_cpu,
                                                  [](const ChannelScale& shape, auto input, auto factors, auto output) {
                                                    return check_scale(shape, input, output.size(), factors.size());
                                                  });
constinit decltype(channel_products) channel_products("channel_products", products_cpu,
                                                      [](const ChannelScale& shape, auto input, auto output_gradient,
                                                         auto factor_gradients) {
                                                        return check_scale(shape, input, output_gradient.size(),
                                                                           factor_gradients.size());
                                                      });

namespace {

using namespace dnnl;

class OneDnnLocalResponse final : public Plan {
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

  void forward(const ForwardPass& pass) override {
    forward_.run({pass.inputs[0].data(), pass.output.data(), pass.saved.data(), pass.scratch.data()});
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(backward_, "backward of a plan that was made for evaluation");
    backward_.run({pass.inputs[0].data(), pass.output_gradients[0].data(), pass.input_gradients[0].data(),
                   pass.saved.data(), pass.scratch.data()});
  }

 private:
  std::size_t workspace_ = 0;
  onednn::Execution forward_;
  onednn::Execution backward_;
};

std::unique_ptr<Plan> make_cpu(const Device&, const LocalResponseSpec& spec) {
  return onednn::make_plan<OneDnnLocalResponse>(
      fmt::format("local response normalization over {} of [{}, {}, {}, {}]", spec.size, spec.batch, spec.height,
                  spec.width, spec.channels),
      spec);
}

}  // namespace

constinit decltype(make_local_response_plan) make_local_response_plan("local response normalization", make_cpu);

}  // namespace dragonn::kernels

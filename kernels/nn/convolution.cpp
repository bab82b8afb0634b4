// SPDX-License-Identifier: MIT
#include "kernels/nn/convolution.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "kernels/nn/cpu_convolutions.h"
#include "kernels/nn/onednn.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {
namespace {

using dnnl::memory;

/// The patch matrix of an ungrouped convolution: a row per output pixel, its window's inputs in the order of weights.
class Patches {
 public:
  explicit Patches(const ConvolutionSpec& spec) : spec_(spec) {}

  std::int64_t rows() const { return spec_.output_pixels(); }
  std::int64_t columns() const { return spec_.vertical.kernel * spec_.horizontal.kernel * spec_.channels; }
  /// @param input [batch, height, width, channels].  @param patches [rows(), columns()], overwritten.
  void gather(const float* input, float* patches) const {
    const std::int64_t height = spec_.output_height(), width = spec_.output_width();
    for_each_piece(static_cast<std::size_t>(spec_.batch), 1, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (auto image = static_cast<std::int64_t>(begin); image < static_cast<std::int64_t>(end); ++image) {
        const float* pixels = input + image * spec_.height * spec_.width * spec_.channels;
        float* patch = patches + image * height * width * columns();
        for (std::int64_t y = 0; y < height; ++y)
          for (std::int64_t x = 0; x < width; ++x, patch += columns()) gather_row(pixels, y, x, patch);
      }
    });
  }

 private:
  void gather_row(const float* image, std::int64_t output_y, std::int64_t output_x, float* patch) const {
    for (std::int64_t kernel_y = 0; kernel_y < spec_.vertical.kernel; ++kernel_y) {
      const std::int64_t y = output_y * spec_.vertical.stride - spec_.vertical.padding + kernel_y;
      for (std::int64_t kernel_x = 0; kernel_x < spec_.horizontal.kernel; ++kernel_x, patch += spec_.channels) {
        const std::int64_t x = output_x * spec_.horizontal.stride - spec_.horizontal.padding + kernel_x;
        if (y < 0 || y >= spec_.height || x < 0 || x >= spec_.width)
          std::fill_n(patch, spec_.channels, 0.0f);
        else
          std::copy_n(image + (y * spec_.width + x) * spec_.channels, spec_.channels, patch);
      }
    }
  }

  ConvolutionSpec spec_;
};

/// The passes, with user_scratchpad(), weights in any layout and plain activations. The backward ones may be empty.
struct Descriptions {
  dnnl::primitive_desc_base forward, backward_data, backward_weights;
  dnnl::memory::desc plain_weights;  ///< as the caller keeps weights and their gradient
  /// Whether backward_weights is a product with the patches of the input, not the input itself: its gradient is plain.
  std::optional<Patches> patches = std::nullopt;
};

/// A primitive, and the reorder between the caller's layout of the weights and its own, if they differ.
struct Stage {
  onednn::Execution execution, reorder;
  std::size_t copy = 0;  ///< floats of the weights in its layout

  std::size_t scratch() const { return std::max(execution.scratch(), reorder.scratch()); }
  std::size_t total() const { return copy + scratch(); }
};

/// A convolution by primitives of oneDNN.
class OneDnnConvolution final : public Plan {
 public:
  explicit OneDnnConvolution(const Descriptions& descriptions) : patches_(descriptions.patches) {
    const memory::desc& plain = descriptions.plain_weights;
    const memory::desc weights = descriptions.forward.query_md(dnnl::query::weights_md);
    forward_.execution = {descriptions.forward,
                          {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD}};
    reorder(forward_, plain, weights, weights);
    if (descriptions.backward_weights.get(true) != nullptr) {
      const memory::desc gradient = descriptions.backward_weights.query_md(dnnl::query::diff_weights_md);
      backward_weights_.execution = {
          descriptions.backward_weights,
          {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_SCRATCHPAD}};
      if (!patches_) reorder(backward_weights_, gradient, plain, gradient);
    }
    if (descriptions.backward_data.get(true) != nullptr) {
      const memory::desc own = descriptions.backward_data.query_md(dnnl::query::weights_md);
      backward_data_.execution = {descriptions.backward_data,
                                  {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, DNNL_ARG_SCRATCHPAD}};
      reorder(backward_data_, plain, own, own);
      share_copy_ = backward_data_.reorder && own == weights;
    }
  }

  PlanMemory memory() const override {
    const std::size_t shared = share_copy_ ? forward_.copy : 0;
    return {shared, forward_.total() - shared,
            std::max(patch_floats() + backward_weights_.total(),
                     backward_data_.scratch() + (share_copy_ ? 0 : backward_data_.copy))};
  }

  void forward(const ForwardPass& pass) override {
    const float* weights = pass.parameters[0].data();
    float* scratch = pass.scratch.data();
    if (forward_.reorder) {
      float* copy = pass.saved.data();
      if (!share_copy_) {
        copy = scratch;
        scratch += forward_.copy;
      }
      forward_.reorder.run({weights, copy, scratch});
      weights = copy;
    }
    forward_.execution.run(
        {pass.inputs[0].data(), weights, bias_of(pass.parameters).data(), pass.output.data(), scratch});
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(backward_weights_.execution, "backward of a plan that was made for evaluation");
    run_backward_weights(pass);
    if (backward_data_.execution) run_backward_data(pass);
  }

 private:
  /// @param own the primitive's layout, which is one of both.
  static void reorder(Stage& stage, const memory::desc& from, const memory::desc& to, const memory::desc& own) {
    if (from == to) return;
    stage.reorder = onednn::reordering(from, to);
    stage.copy = onednn::floats(own);
  }

  std::size_t patch_floats() const {
    return patches_ ? aligned_floats(static_cast<std::size_t>(patches_->rows() * patches_->columns())) : 0;
  }

  void run_backward_weights(const BackwardPass& pass) {
    const float* input = pass.inputs[0].data();
    float* scratch = pass.scratch.data();
    if (patches_) {
      patches_->gather(input, scratch);
      input = scratch;
      scratch += patch_floats();
    }
    const bool reorder = static_cast<bool>(backward_weights_.reorder);
    float* gradient = reorder ? scratch : pass.parameter_gradients[0].data();
    scratch += backward_weights_.copy;
    backward_weights_.execution.run(
        {input, pass.output_gradients[0].data(), gradient, bias_of(pass.parameter_gradients).data(), scratch});
    if (reorder) backward_weights_.reorder.run({gradient, pass.parameter_gradients[0].data(), scratch});
  }

  void run_backward_data(const BackwardPass& pass) {
    const float* weights = pass.parameters[0].data();
    float* scratch = pass.scratch.data();
    if (share_copy_) {
      weights = pass.saved.data();
    } else if (backward_data_.reorder) {
      scratch += backward_data_.copy;
      backward_data_.reorder.run({weights, pass.scratch.data(), scratch});
      weights = pass.scratch.data();
    }
    backward_data_.execution.run({pass.output_gradients[0].data(), weights, pass.input_gradients[0].data(), scratch});
  }

  Stage forward_, backward_data_, backward_weights_;
  std::optional<Patches> patches_;
  bool share_copy_ = false;  // forward's copy of the weights serves the data gradient too
};

/// The descriptions of one convolution's tensors for oneDNN.
struct Tensors {
  memory::desc input, output, bias, any_weights, plain_weights;
  memory::dims strides, padding_before, padding_after;
};

memory::desc weights(const ConvolutionSpec& spec, memory::format_tag plain, memory::format_tag plain_grouped) {
  const memory::dim inputs = spec.channels / spec.groups;
  if (spec.groups == 1)
    return {
        {spec.output_channels, inputs, spec.vertical.kernel, spec.horizontal.kernel}, memory::data_type::f32, plain};
  return {{spec.groups, spec.output_channels / spec.groups, inputs, spec.vertical.kernel, spec.horizontal.kernel},
          memory::data_type::f32,
          plain_grouped};
}

Tensors describe(const ConvolutionSpec& spec) {
  using tag = memory::format_tag;
  const auto float32 = memory::data_type::f32;
  // Activations are held to NHWC: left to itself, oneDNN may choose a blocked layout and reorder around every layer.
  Tensors tensors;
  tensors.input = {{spec.batch, spec.channels, spec.height, spec.width}, float32, tag::nhwc};
  tensors.output = {{spec.batch, spec.output_channels, spec.output_height(), spec.output_width()}, float32, tag::nhwc};
  if (spec.bias) tensors.bias = {{spec.output_channels}, float32, tag::x};
  tensors.any_weights = weights(spec, tag::any, tag::any);
  tensors.plain_weights = weights(spec, tag::hwio, tag::hwigo);
  tensors.strides = {spec.vertical.stride, spec.horizontal.stride};
  tensors.padding_before = {spec.vertical.padding, spec.horizontal.padding};
  tensors.padding_after = {spec.vertical.padding_after(spec.height), spec.horizontal.padding_after(spec.width)};
  return tensors;
}

/// The longest output row for which oneDNN's second choice is taken. It prefers "brgconv", whose tiles are pieces of a
/// row; for shorter rows the next is faster: 1.5 times at 4 x 4 pixels of 512 channels (AVX-512, one thread).
constexpr std::int64_t kShortRow = 7;
/// The most pixels for which the gradient of the weights is a product with the patches of the batch. The convolution's
/// own kernel sweeps all weights per image: that takes 3.5 times as long at 2 x 2 pixels of 512 channels, 1.1 at 4 x 4.
constexpr std::int64_t kFewPixels = 16;

dnnl::convolution_forward::primitive_desc describe_forward(const ConvolutionSpec& spec, const Tensors& t) {
  using namespace dnnl;
  const convolution_forward::desc operation(spec.training ? prop_kind::forward_training : prop_kind::forward_inference,
                                            algorithm::convolution_direct, t.input, t.any_weights, t.bias, t.output,
                                            t.strides, t.padding_before, t.padding_after);
  const convolution_forward::primitive_desc first(operation, onednn::user_scratchpad(), onednn::engine());
  const auto is = [](const auto& description, std::string_view kind) {
    return std::string_view(description.impl_info_str()).starts_with(kind);
  };
  if (!is(first, "brgconv:") || spec.output_width() > kShortRow) return first;
  convolution_forward::primitive_desc next(operation, onednn::user_scratchpad(), onednn::engine());
  return next.next_impl() && is(next, "jit:avx512") ? next : first;
}

/// Describes the gradient of the weights as a product of patches and output gradients.
dnnl::inner_product_backward_weights::primitive_desc describe_patch_product(const ConvolutionSpec& spec,
                                                                            const Patches& patches) {
  using namespace dnnl;
  using tag = memory::format_tag;
  const auto float32 = memory::data_type::f32;
  const memory::desc input({patches.rows(), patches.columns()}, float32, tag::nc);
  const memory::desc output({patches.rows(), spec.output_channels}, float32, tag::nc);
  const memory::desc hwio_weights({spec.output_channels, patches.columns()}, float32, tag::io);
  const memory::desc bias = spec.bias ? memory::desc({spec.output_channels}, float32, tag::x) : memory::desc();
  const primitive_attr attributes = onednn::user_scratchpad();
  const inner_product_forward::primitive_desc forward({prop_kind::forward_training, input, hwio_weights, bias, output},
                                                      attributes, onednn::engine());
  return {{input, hwio_weights, bias, output}, attributes, onednn::engine(), forward};
}

Descriptions describe_primitives(const ConvolutionSpec& spec) {
  using namespace dnnl;
  const Tensors t = describe(spec);
  const primitive_attr attributes = onednn::user_scratchpad();
  const convolution_forward::primitive_desc forward = describe_forward(spec, t);
  Descriptions descriptions{forward, {}, {}, t.plain_weights};
  if (!spec.training) return descriptions;
  const auto direct = algorithm::convolution_direct;
  if (spec.groups == 1 && spec.output_height() * spec.output_width() <= kFewPixels) {
    descriptions.patches = Patches(spec);
    descriptions.backward_weights = describe_patch_product(spec, *descriptions.patches);
  } else {
    descriptions.backward_weights = convolution_backward_weights::primitive_desc(
        {direct, t.input, t.any_weights, t.bias, t.output, t.strides, t.padding_before, t.padding_after}, attributes,
        onednn::engine(), forward);
  }
  if (spec.input_gradient)
    descriptions.backward_data = convolution_backward_data::primitive_desc(
        {direct, t.input, t.any_weights, t.output, t.strides, t.padding_before, t.padding_after}, attributes,
        onednn::engine(), forward);
  return descriptions;
}

/// The fewest kernel rows per output row for which strips are faster than the patches that oneDNN copies without a
/// kernel. With 5 (11 x 41, strides 2) strips are 1.7 times faster from 1 to 32 channels and 2.5 to 8; with 1, 0.8.
constexpr std::int64_t kManyRows = 4;

/// Returns whether oneDNN is slow at a part of this convolution. Kernels wider than 14 that step by 2 leave it with its
/// reference, some 500 times slower than strips with 8 channels. With strides its kernels for AVX2 reach half the rate
/// of its products: from 64 channels on strips take 0.5 to 0.8 times as long backward, and about as long forward.
bool strips_are_faster(const ConvolutionSpec& spec, const Descriptions& descriptions) {
  constexpr std::int64_t kFewestChannelsOfAvx2 = 64;
  if (spec.training && spec.groups == 1 && spec.vertical.stride > 1 && spec.vertical.kernel > 1 &&
      std::min(spec.channels, spec.output_channels) >= kFewestChannelsOfAvx2 && !onednn::uses_avx512())
    return true;
  const auto slow = [&](const dnnl::primitive_desc_base& description) {
    if (description.get(true) == nullptr) return false;
    const std::string_view kind = description.impl_info_str();
    return kind.starts_with("ref") ||
           (kind.find("gemm") != std::string_view::npos && spec.vertical.kernel >= kManyRows * spec.vertical.stride);
  };
  return slow(descriptions.forward) || slow(descriptions.backward_data) ||
         (!descriptions.patches && slow(descriptions.backward_weights));
}

std::unique_ptr<Plan> make_cpu(const Device&, const ConvolutionSpec& spec) {
  const auto make = [&]() -> std::unique_ptr<Plan> {
    if (winograd_is_faster(spec)) return make_winograd_convolution(spec);
    if (pointwise_is_faster(spec)) return make_pointwise_convolution(spec);
    if (taps_are_faster(spec)) return make_tap_convolution(spec);
    const Descriptions descriptions = describe_primitives(spec);
    if (strips_are_faster(spec, descriptions)) return make_strip_convolution(spec);
    return std::make_unique<OneDnnConvolution>(descriptions);
  };
  return onednn::translate_errors(fmt::format("convolution {}x{} of [{}, {}, {}, {}] to {} channels in {} groups",
                                              spec.vertical.kernel, spec.horizontal.kernel, spec.batch, spec.height,
                                              spec.width, spec.channels, spec.output_channels, spec.groups),
                                  make);
}

}  // namespace

constinit decltype(make_convolution_plan) make_convolution_plan("convolution", make_cpu, has_math<ConvolutionSpec>);

}  // namespace dragonn::kernels

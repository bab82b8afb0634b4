// SPDX-License-Identifier: MIT
#include "kernels/nn/onednn_weighted.h"

#include <algorithm>

namespace dragonn::kernels::onednn {
namespace {

using Description = dnnl::memory::desc;

/// Copies weights between the caller's layout and a primitive's. Does nothing if both are the same.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const Description& from, const Description& to) : needed_(from != to) {
    if (!needed_) return;
    const dnnl::reorder::primitive_desc description(engine(), from, engine(), to, user_scratchpad());
    scratch_ = floats(description.scratchpad_desc());
    execution_ =
        Execution(dnnl::reorder(description),
                  {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, description.scratchpad_desc()}});
  }
  bool needed() const { return needed_; }
  std::size_t scratch() const { return scratch_; }
  void run(const float* from, float* to, float* scratch) { execution_.run({from, to, scratch}); }

 private:
  bool needed_ = false;
  std::size_t scratch_ = 0;
  Execution execution_;
};

/// A primitive and the reorder of its weights. `copy` floats hold the weights in its layout, `scratch` its scratchpad
/// or the reorder's.
struct Stage {
  Execution execution;
  Reorder reorder;
  std::size_t copy = 0;
  std::size_t scratch = 0;

  std::size_t total() const { return copy + scratch; }
};

class Weighted final : public WeightedPlan {
 public:
  explicit Weighted(const WeightedDescriptions& descriptions) : patches_(descriptions.patches) {
    make_forward(descriptions);
    if (descriptions.backward_weights.get(true) != nullptr) make_backward_weights(descriptions);
    if (descriptions.backward_data.get(true) != nullptr) make_backward_data(descriptions);
  }

  PlanMemory memory() const override {
    const std::size_t shared = share_copy_ ? forward_.copy : 0;
    return {shared, forward_.total() - shared,
            std::max(patch_floats() + backward_weights_.total(),
                     backward_data_.scratch + (share_copy_ ? 0 : backward_data_.copy))};
  }

  void forward(const WeightedForward& arguments) override {
    const float* weights = arguments.weights.data();
    float* scratch = arguments.scratch.data();
    if (forward_.reorder.needed()) {
      float* copy = arguments.saved.data();
      if (!share_copy_) {
        copy = scratch;
        scratch += forward_.copy;
      }
      forward_.reorder.run(weights, copy, scratch);
      weights = copy;
    }
    forward_.execution.run({arguments.input.data(), weights, arguments.bias.data(), arguments.output.data(), scratch});
  }

  void backward(const WeightedBackward& arguments) override {
    DRAGONN_CHECK(backward_weights_.execution, "backward of a plan that was made for evaluation");
    run_backward_weights(arguments);
    if (backward_data_.execution) run_backward_data(arguments);
  }

 private:
  void make_forward(const WeightedDescriptions& descriptions) {
    const dnnl::primitive_desc_base& forward = descriptions.forward;
    const Description weights = forward.query_md(dnnl::query::weights_md);
    const Description scratchpad = forward.query_md(dnnl::query::scratchpad_md);
    forward_.execution =
        Execution(dnnl::primitive(forward.get()), {{DNNL_ARG_SRC, forward.query_md(dnnl::query::src_md)},
                                                   {DNNL_ARG_WEIGHTS, weights},
                                                   {DNNL_ARG_BIAS, forward.query_md(dnnl::query::weights_md, 1)},
                                                   {DNNL_ARG_DST, forward.query_md(dnnl::query::dst_md)},
                                                   {DNNL_ARG_SCRATCHPAD, scratchpad}});
    forward_.reorder = Reorder(descriptions.plain_weights, weights);
    finish(forward_, weights, scratchpad);
  }

  void make_backward_data(const WeightedDescriptions& descriptions) {
    const dnnl::primitive_desc_base& backward = descriptions.backward_data;
    const Description weights = backward.query_md(dnnl::query::weights_md);
    const Description scratchpad = backward.query_md(dnnl::query::scratchpad_md);
    backward_data_.execution =
        Execution(dnnl::primitive(backward.get()), {{DNNL_ARG_DIFF_DST, backward.query_md(dnnl::query::diff_dst_md)},
                                                    {DNNL_ARG_WEIGHTS, weights},
                                                    {DNNL_ARG_DIFF_SRC, backward.query_md(dnnl::query::diff_src_md)},
                                                    {DNNL_ARG_SCRATCHPAD, scratchpad}});
    backward_data_.reorder = Reorder(descriptions.plain_weights, weights);
    finish(backward_data_, weights, scratchpad);
    share_copy_ = backward_data_.reorder.needed() && weights == descriptions.forward.query_md(dnnl::query::weights_md);
  }

  void make_backward_weights(const WeightedDescriptions& descriptions) {
    const dnnl::primitive_desc_base& backward = descriptions.backward_weights;
    const Description gradient = backward.query_md(dnnl::query::diff_weights_md);
    const Description scratchpad = backward.query_md(dnnl::query::scratchpad_md);
    backward_weights_.execution = Execution(dnnl::primitive(backward.get()),
                                            {{DNNL_ARG_SRC, backward.query_md(dnnl::query::src_md)},
                                             {DNNL_ARG_DIFF_DST, backward.query_md(dnnl::query::diff_dst_md)},
                                             {DNNL_ARG_DIFF_WEIGHTS, gradient},
                                             {DNNL_ARG_DIFF_BIAS, backward.query_md(dnnl::query::diff_weights_md, 1)},
                                             {DNNL_ARG_SCRATCHPAD, scratchpad}});
    if (!patches_) backward_weights_.reorder = Reorder(gradient, descriptions.plain_weights);
    finish(backward_weights_, gradient, scratchpad);
  }

  static void finish(Stage& stage, const Description& weights, const Description& scratchpad) {
    if (stage.reorder.needed()) stage.copy = floats(weights);
    stage.scratch = std::max(floats(scratchpad), stage.reorder.scratch());
  }

  std::size_t patch_floats() const {
    return patches_ ? aligned_floats(static_cast<std::size_t>(patches_->rows() * patches_->columns())) : 0;
  }

  void run_backward_weights(const WeightedBackward& arguments) {
    const float* input = arguments.input.data();
    float* scratch = arguments.scratch.data();
    if (patches_) {
      patches_->gather(input, scratch);
      input = scratch;
      scratch += patch_floats();
    }
    const bool reorder = backward_weights_.reorder.needed();
    float* gradient = reorder ? scratch : arguments.weights_gradient.data();
    scratch += backward_weights_.copy;
    backward_weights_.execution.run(
        {input, arguments.output_gradient.data(), gradient, arguments.bias_gradient.data(), scratch});
    if (reorder) backward_weights_.reorder.run(gradient, arguments.weights_gradient.data(), scratch);
  }

  void run_backward_data(const WeightedBackward& arguments) {
    const float* weights = arguments.weights.data();
    float* scratch = arguments.scratch.data();
    if (share_copy_) {
      weights = arguments.saved.data();
    } else if (backward_data_.reorder.needed()) {
      scratch += backward_data_.copy;
      backward_data_.reorder.run(weights, arguments.scratch.data(), scratch);
      weights = arguments.scratch.data();
    }
    backward_data_.execution.run({arguments.output_gradient.data(), weights, arguments.input_gradient.data(), scratch});
  }

  Stage forward_;
  Stage backward_data_;
  Stage backward_weights_;
  std::optional<Patches> patches_;
  bool share_copy_ = false;  // forward's copy of the weights serves the data gradient too
};

}  // namespace

std::unique_ptr<WeightedPlan> make_weighted_plan(const WeightedDescriptions& descriptions) {
  return std::make_unique<Weighted>(descriptions);
}

}  // namespace dragonn::kernels::onednn

// SPDX-License-Identifier: MIT
#include "kernels/nn/onednn.h"

#include <algorithm>

namespace dragonn::kernels::onednn {

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

bool uses_avx512() {
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::size_t floats(const dnnl::memory::desc& description) {
  return floats_for_bytes(description.get_size());
}

Execution::Execution(const dnnl::primitive_desc_base& description, std::initializer_list<int> arguments)
    : primitive_(description.get()),
      stream_(engine()),
      memories_(arguments.size()),
      bound_(arguments.size(), nullptr),
      scratch_(floats(description.query_md(dnnl::query::scratchpad_md))) {
  std::size_t position = 0;
  for (const int argument : arguments) {
    const dnnl::memory::desc memory = description.query_md(dnnl::query::exec_arg_md, argument);
    if (memory.get_size() > 0) {
      memories_[position] = dnnl::memory(memory, engine(), DNNL_MEMORY_NONE);
      arguments_.push_back({argument, memories_[position].get()});
    }
    ++position;
  }
}

void Execution::run(std::initializer_list<const void*> pointers) {
  DRAGONN_CHECK(pointers.size() == memories_.size(), "{} pointers for a primitive of {} arguments", pointers.size(),
                memories_.size());
  std::size_t position = 0;
  for (const void* pointer : pointers) {
    // Buffers stay where they are from step to step, so binding is rare.
    if (memories_[position].get(true) != nullptr && bound_[position] != pointer) {
      memories_[position].set_data_handle(const_cast<void*>(pointer));
      bound_[position] = pointer;
    }
    ++position;
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()), arguments_.data());
  DRAGONN_CHECK(status == dnnl_success, "oneDNN primitive failed with status {}", static_cast<int>(status));
}

Execution reordering(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  const dnnl::reorder::primitive_desc description(engine(), from, engine(), to, user_scratchpad());
  return {description, {DNNL_ARG_FROM, DNNL_ARG_TO, DNNL_ARG_SCRATCHPAD}};
}

namespace {

using Description = dnnl::memory::desc;

/// A primitive, and the reorder between the caller's layout of its weights and its own, if they differ. `copy` floats
/// hold the weights in its layout.
struct Stage {
  Execution execution;
  Execution reorder;
  std::size_t copy = 0;

  std::size_t scratch() const { return std::max(execution.scratch(), reorder.scratch()); }
  std::size_t total() const { return copy + scratch(); }
};

class Weighted final : public Plan {
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
  void make_forward(const WeightedDescriptions& descriptions) {
    const Description weights = descriptions.forward.query_md(dnnl::query::weights_md);
    forward_.execution = {descriptions.forward,
                          {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD}};
    reorder(forward_, descriptions.plain_weights, weights, weights);
  }

  void make_backward_data(const WeightedDescriptions& descriptions) {
    const Description weights = descriptions.backward_data.query_md(dnnl::query::weights_md);
    backward_data_.execution = {descriptions.backward_data,
                                {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, DNNL_ARG_SCRATCHPAD}};
    reorder(backward_data_, descriptions.plain_weights, weights, weights);
    share_copy_ = backward_data_.reorder && weights == descriptions.forward.query_md(dnnl::query::weights_md);
  }

  void make_backward_weights(const WeightedDescriptions& descriptions) {
    const Description gradient = descriptions.backward_weights.query_md(dnnl::query::diff_weights_md);
    backward_weights_.execution = {
        descriptions.backward_weights,
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_SCRATCHPAD}};
    if (!patches_) reorder(backward_weights_, gradient, descriptions.plain_weights, gradient);
  }

  /// @param own the primitive's layout, which is one of both.
  static void reorder(Stage& stage, const Description& from, const Description& to, const Description& own) {
    if (from == to) return;
    stage.reorder = reordering(from, to);
    stage.copy = floats(own);
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

  Stage forward_;
  Stage backward_data_;
  Stage backward_weights_;
  std::optional<Patches> patches_;
  bool share_copy_ = false;  // forward's copy of the weights serves the data gradient too
};

}  // namespace

std::unique_ptr<Plan> make_weighted_plan(const WeightedDescriptions& descriptions) {
  return std::make_unique<Weighted>(descriptions);
}

}  // namespace dragonn::kernels::onednn

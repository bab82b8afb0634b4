// SPDX-License-Identifier: MIT
/// Softmax cross-entropy of one class per sample or per time step.
#include "kernels/nn/softmax_cross_entropy.h"
#include "layers/loss.h"

namespace dragonn::layers {
namespace {

class CrossEntropyPlan final : public LossPlan {
 public:
  CrossEntropyPlan(const Shape& output, bool per_step)
      : classes_(static_cast<std::size_t>(output[output.rank() - 1])), per_step_(per_step) {}

  LossResult run(const LossPass& pass) override {
    const kernels::CrossEntropy loss = kernels::softmax_cross_entropy(pass.outputs, pass.targets.labels, classes_,
                                                                      pass.label_smoothing, pass.gradient);
    if (!per_step_ && loss.count != pass.targets.labels.size())
      throw DataError(fmt::format("label {} of a sample: valid are 0 to {}", kIgnoredLabel, classes_ - 1));
    return {loss.loss_sum, loss.correct, loss.count};
  }

 private:
  std::size_t classes_;
  bool per_step_;
};

class CrossEntropyLoss final : public Loss {
 public:
  explicit CrossEntropyLoss(TargetKind targets) : targets_(targets) {}

  std::string kind() const override { return "softmax cross-entropy"; }
  TargetKind targets() const override { return targets_; }
  void check(const Shape& output) const override {
    const bool per_step = targets_ == TargetKind::kClassPerStep;
    if (output.rank() != (per_step ? 3 : 2))
      throw ShapeError(fmt::format("a network with this loss must end in [batch, {}classes], not {}",
                                   per_step ? "steps, " : "", output.to_string()));
  }
  std::unique_ptr<LossPlan> plan(const Device&, const Shape& output) const override {
    return std::make_unique<CrossEntropyPlan>(output, targets_ == TargetKind::kClassPerStep);
  }

 private:
  TargetKind targets_;
};

}  // namespace

std::unique_ptr<Loss> softmax_cross_entropy_loss() {
  return std::make_unique<CrossEntropyLoss>(TargetKind::kClass);
}
std::unique_ptr<Loss> sequence_cross_entropy_loss() {
  return std::make_unique<CrossEntropyLoss>(TargetKind::kClassPerStep);
}

}  // namespace dragonn::layers

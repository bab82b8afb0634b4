// SPDX-License-Identifier: MIT
/// The losses: softmax cross-entropy of one class per sample or time step, sets of classes, and CTC.
#include "kernels/nn/losses.h"

#include "core/buffer.h"
#include "layers/loss.h"

namespace dragonn::layers {
namespace {

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
  LossPlan plan(const Device&, const Shape& output) const override {
    return [classes = static_cast<std::size_t>(output[output.rank() - 1]),
            per_step = targets_ == TargetKind::kClassPerStep](const LossPass& pass) -> LossResult {
      const kernels::LossSums loss = kernels::softmax_cross_entropy(pass.outputs, pass.targets.labels, classes,
                                                                        pass.label_smoothing, pass.gradient);
      if (!per_step && loss.count != pass.targets.labels.size())
        throw DataError(fmt::format("label {} of a sample: valid are 0 to {}", kIgnoredLabel, classes - 1));
      return {loss.loss_sum, loss.correct, loss.count};
    };
  }

 private:
  TargetKind targets_;
};

class MultiLabelLoss final : public Loss {
 public:
  std::string kind() const override { return "multi-label logistic"; }
  TargetKind targets() const override { return TargetKind::kClassSet; }
  void check(const Shape& output) const override {
    if (output.rank() != 2)
      throw ShapeError(
          fmt::format("a network with the multi-label loss must end in [batch, classes], not {}", output.to_string()));
  }
  LossPlan plan(const Device&, const Shape& output) const override {
    const auto batch = static_cast<std::size_t>(output[0]), classes = static_cast<std::size_t>(output[1]);
    return [=](const LossPass& pass) -> LossResult {
      const kernels::LossSums result = kernels::multi_label(pass.outputs, pass.targets, classes, pass.gradient);
      return {result.loss_sum, result.correct, batch};
    };
  }
};

class CtcLoss final : public Loss {
 public:
  std::string kind() const override { return "CTC"; }
  TargetKind targets() const override { return TargetKind::kClassSequence; }
  void check(const Shape& output) const override {
    if (output.rank() != 3)
      throw ShapeError(
          fmt::format("a network with the CTC loss must end in [batch, steps, classes], not {}", output.to_string()));
  }
  LossPlan plan(const Device& device, const Shape& output) const override {
    const auto extent = [&](std::size_t axis) { return static_cast<std::size_t>(output[axis]); };
    return [batch = extent(0), steps = extent(1), classes = extent(2),
            scratch = std::make_shared<Buffer<double>>(0, device)](const LossPass& pass) -> LossResult {
      scratch->resize_discard(kernels::ctc_scratch(scratch->device(), steps, pass.targets));
      const double sum = kernels::ctc(
          {batch, steps, classes, pass.outputs, pass.targets, pass.lengths, pass.gradient, scratch->view()});
      return {sum, 0, batch};
    };
  }
};

}  // namespace

std::unique_ptr<Loss> softmax_cross_entropy_loss() {
  return std::make_unique<CrossEntropyLoss>(TargetKind::kClass);
}
std::unique_ptr<Loss> sequence_cross_entropy_loss() {
  return std::make_unique<CrossEntropyLoss>(TargetKind::kClassPerStep);
}

std::unique_ptr<Loss> multi_label_loss() {
  return std::make_unique<MultiLabelLoss>();
}

std::unique_ptr<Loss> ctc_loss() {
  return std::make_unique<CtcLoss>();
}

}  // namespace dragonn::layers

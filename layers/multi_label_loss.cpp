// SPDX-License-Identifier: MIT
#include "kernels/nn/multi_label.h"
#include "layers/loss.h"

namespace dragonn::layers {
namespace {

class MultiLabelPlan final : public LossPlan {
 public:
  explicit MultiLabelPlan(const Shape& output)
      : batch_(static_cast<std::size_t>(output[0])), classes_(static_cast<std::size_t>(output[1])) {}

  LossResult run(const LossPass& pass) override {
    const kernels::MultiLabelResult result = kernels::multi_label(pass.outputs, pass.targets, classes_, pass.gradient);
    return {result.loss_sum, result.correct, batch_};
  }

 private:
  std::size_t batch_, classes_;
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
  std::unique_ptr<LossPlan> plan(const Device&, const Shape& output) const override {
    return std::make_unique<MultiLabelPlan>(output);
  }
};

}  // namespace

std::unique_ptr<Loss> multi_label_loss() {
  return std::make_unique<MultiLabelLoss>();
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
#include "core/buffer.h"
#include "kernels/nn/ctc.h"
#include "layers/loss.h"

namespace dragonn::layers {
namespace {

class CtcPlan final : public LossPlan {
 public:
  CtcPlan(const Device& device, const Shape& output)
      : batch_(static_cast<std::size_t>(output[0])),
        steps_(static_cast<std::size_t>(output[1])),
        classes_(static_cast<std::size_t>(output[2])),
        scratch_(0, device) {}

  LossResult run(const LossPass& pass) override {
    scratch_.resize_discard(kernels::ctc_scratch(scratch_.device(), steps_, pass.targets));
    const double sum = kernels::ctc(
        {batch_, steps_, classes_, pass.outputs, pass.targets, pass.lengths, pass.gradient, scratch_.view()});
    return {sum, 0, batch_};
  }

 private:
  std::size_t batch_, steps_, classes_;
  Buffer<double> scratch_;
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
  std::unique_ptr<LossPlan> plan(const Device& device, const Shape& output) const override {
    return std::make_unique<CtcPlan>(device, output);
  }
};

}  // namespace

std::unique_ptr<Loss> ctc_loss() {
  return std::make_unique<CtcLoss>();
}

}  // namespace dragonn::layers

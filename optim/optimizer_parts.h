// SPDX-License-Identifier: MIT
/// Parts that the optimizers share: arrays of state, and the rule of Adam step by step.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/buffer.h"
#include "core/parameter.h"
#include "core/settings.h"
#include "kernels/gradient/optimizer_update.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::optim {

/// Makes an array of zeros on the device of the parameters, for an optimizer's state.
inline Buffer<float> zeros(std::size_t size, const ParameterArena& arena) {
  Buffer<float> state(size, arena.values().device());
  kernels::fill(0, state.view());
  return state;
}

/// Keeps the rule of Adam's update. The correction of the moments' bias counts the run's steps, so there is no counter
/// to save.
class AdamSteps {
 public:
  /// @param settings have specs().
  AdamSteps(const Settings& settings, bool decoupled)
      : beta1_(settings.number("beta1")),
        beta2_(settings.number("beta2")),
        bias_correction_(settings.flag("bias_correction")) {
    rule_.beta1 = static_cast<float>(beta1_);
    rule_.beta2 = static_cast<float>(beta2_);
    rule_.one_minus_beta1 = static_cast<float>(1.0 - beta1_);
    rule_.one_minus_beta2 = static_cast<float>(1.0 - beta2_);
    rule_.epsilon = static_cast<float>(settings.number("epsilon"));
    rule_.decoupled = decoupled;
  }

  /// Returns the settings. @param beta2 their default.
  static SettingSpecs specs(double beta2) {
    constexpr double kBelowOne = 1.0 - 0x1p-24;  // the largest value below 1 that survives the rounding to float
    return {{"beta1", 0.9, "decay rate of the mean of the gradients", 0.0, kBelowOne},
            {"beta2", beta2, "decay rate of the mean of the squared gradients", 0.0, kBelowOne},
            SettingSpec::number("epsilon", 1e-8, "added to the root of the second moment", 0).above_minimum(),
            {"bias_correction", true, "true: correct the moments for their start at zero"}};
  }

  void begin_step(double learning_rate, std::uint64_t step) {
    double step_size = learning_rate, root_correction = 1.0;
    if (bias_correction_) {
      const double t = static_cast<double>(step) + 1.0;
      step_size /= 1.0 - std::pow(beta1_, t);
      root_correction = 1.0 / std::sqrt(1.0 - std::pow(beta2_, t));
    }
    rule_.learning_rate = static_cast<float>(learning_rate);
    rule_.step_size = static_cast<float>(step_size);
    rule_.root_correction = static_cast<float>(root_correction);
  }

  /// Returns this step's rule for a gradient with these factors.
  kernels::AdamRule rule(float scale, float weight_decay) const {
    kernels::AdamRule rule = rule_;
    rule.scale = scale;
    rule.weight_decay = weight_decay;
    return rule;
  }

 private:
  double beta1_, beta2_;
  bool bias_correction_;
  kernels::AdamRule rule_;
};

}  // namespace dragonn::optim

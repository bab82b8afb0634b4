// SPDX-License-Identifier: MIT
/// The optimizers `adam` (weight decay as a part of the gradient) and `adamw` (decoupled weight decay).
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "kernels/devices.h"
#include "kernels/gradient/optimizer_update.h"
#include "optim/optimizer.h"
#include "optim/state.h"

namespace dragonn::optim {
namespace {

using kernels::AdamRule;
using kernels::GradientView;

/// Moments decay at every coordinate, even where the exchanged gradient is zero, so every step sweeps the slice. The
/// correction of the moments' bias counts the run's steps, so there is no counter to save.
class Adam final : public Optimizer {
 public:
  Adam(const Settings& settings, ParameterArena& arena, bool decoupled)
      : arena_(arena),
        decay_(settings, arena),
        beta1_(settings.number("beta1")),
        beta2_(settings.number("beta2")),
        bias_correction_(settings.flag("bias_correction")),
        first_(make_state(arena)),
        second_(make_state(arena)) {
    rule_.beta1 = static_cast<float>(beta1_);
    rule_.beta2 = static_cast<float>(beta2_);
    rule_.one_minus_beta1 = static_cast<float>(1.0 - beta1_);
    rule_.one_minus_beta2 = static_cast<float>(1.0 - beta2_);
    rule_.epsilon = static_cast<float>(settings.number("epsilon"));
    rule_.decoupled = decoupled;
  }

  void begin_step(double learning_rate, std::uint64_t step) override {
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

  void update(const Slice& slice, View<const float> gradient, float scale) override {
    DRAGONN_CHECK(gradient.size() == slice.size, "adam: a gradient of {} elements for a slice of {}", gradient.size(),
                  slice.size);
    sweep(slice, GradientView(gradient), scale);
  }
  void update(const Slice& slice, const SparseVector& gradient, float scale) override {
    sweep(slice, GradientView(gradient, slice.size), scale);
  }
  bool needs_dense(const Slice& /*slice*/) const override { return true; }

  void save(Archive& archive, const std::string& prefix) const override {
    kernels::put_view(archive, prefix + "first", first_.view());
    kernels::put_view(archive, prefix + "second", second_.view());
  }
  void load(const Archive& archive, const std::string& prefix) override {
    kernels::get_view(archive, prefix + "first", first_.view());
    kernels::get_view(archive, prefix + "second", second_.view());
  }

 private:
  void sweep(const Slice& slice, const GradientView& gradient, float scale) {
    DRAGONN_CHECK(!slice.momentum_applied && !slice.learning_rate_applied,
                  "adam is not defined on a gradient with momentum or learning rate in it");
    rule_.scale = scale;
    decay_.for_ranges(slice.offset, slice.size, [&](std::size_t offset, std::size_t size, float decay) {
      rule_.weight_decay = decay;
      kernels::adam_update(rule_, gradient.slice(offset - slice.offset, size), first_.view().subview(offset, size),
                           second_.view().subview(offset, size), arena_.values().subview(offset, size));
    });
  }

  ParameterArena& arena_;
  WeightDecay decay_;
  double beta1_;
  double beta2_;
  bool bias_correction_;
  AdamRule rule_;
  Buffer<float> first_;   ///< m, [arena]
  Buffer<float> second_;  ///< v, [arena]
};

SettingSpecs specs(double weight_decay) {
  // The largest value below 1 that survives the rounding to float.
  constexpr double kBelowOne = 1.0 - 0x1p-24;
  SettingSpecs result{{"beta1", 0.9, "decay rate of the mean of the gradients", 0.0, kBelowOne},
                      {"beta2", 0.999, "decay rate of the mean of the squared gradients", 0.0, kBelowOne},
                      {"epsilon", 1e-8, "added to the root of the second moment", 0.0},
                      {"bias_correction", true, "true: correct the moments for their start at zero"}};
  result[2].exclusive_minimum = true;
  for (SettingSpec& spec : WeightDecay::specs(weight_decay)) result.push_back(std::move(spec));
  return result;
}

OptimizerEntry entry(const std::string& name, const std::string& summary, const std::string& source, bool decoupled) {
  return {{name, summary, source, specs(decoupled ? 0.01 : 0.0)},
          2,
          false,
          false,
          [decoupled](const Settings& settings, ParameterArena& arena) -> std::unique_ptr<Optimizer> {
            return std::make_unique<Adam>(settings, arena, decoupled);
          }};
}

const Registration<OptimizerEntry> adam{
    entry("adam", "Adam, weight decay added to the gradient", "arXiv:1412.6980, algorithm 1", false)};
const Registration<OptimizerEntry> adamw{
    entry("adamw", "Adam with decoupled weight decay", "arXiv:1711.05101, algorithm 2", true)};

}  // namespace
}  // namespace dragonn::optim

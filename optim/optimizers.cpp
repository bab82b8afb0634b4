// SPDX-License-Identifier: MIT
/// The optimizers: `sgd` (plain, heavy-ball momentum, Nesterov), `adam` (weight decay as a part of the gradient) and
/// `adamw` (decoupled weight decay).
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"
#include "optim/optimizer.h"

namespace dragonn::optim {
namespace {

using kernels::GradientView;

/// Makes an array of zeros for the parameters of the arena, on its device.
Buffer<float> make_state(const ParameterArena& arena) {
  Buffer<float> state(arena.size(), arena.values().device());
  kernels::fill(0, state.view());
  return state;
}

/// Cuts the arena into ranges of one coefficient. Weights always decay; biases and normalization parameters do if the
/// setting `weight_decay_norm_bias` says so.
class WeightDecay {
 public:
  /// @param settings have specs().  @param arena is laid out.
  WeightDecay(const Settings& settings, const ParameterArena& arena) {
    const auto decay = static_cast<float>(settings.number("weight_decay"));
    const bool all = settings.flag("weight_decay_norm_bias");
    for (const ParameterId id : arena.layout()) {
      const Parameter& parameter = arena[id];
      const float coefficient = all || parameter.role == ParameterRole::kWeight ? decay : 0.0f;
      const std::size_t end = parameter.offset + parameter.size;
      if (!ranges_.empty() && ranges_.back().coefficient == coefficient) {
        ranges_.back().end = end;
      } else {
        ranges_.push_back({parameter.offset, end, coefficient});
      }
    }
  }

  /// Adds the settings weight_decay (with this default) and weight_decay_norm_bias (on) to an optimizer's own.
  static SettingSpecs specs(double default_value, SettingSpecs own) {
    own.push_back({"weight_decay", default_value, "weight decay coefficient, per step and unit of learning rate", 0.0});
    own.push_back({"weight_decay_norm_bias", true,
                   "true: biases and normalization parameters decay, too, as in most papers' code"});
    return own;
  }

  /// Returns whether anything in [offset, offset + size) decays.
  bool touches(std::size_t offset, std::size_t size) const {
    bool any = false;
    for_ranges(offset, size, [&](std::size_t, std::size_t, float coefficient) { any = any || coefficient != 0; });
    return any;
  }
  /// Calls body(offset, size, coefficient) for the ranges that make up [offset, offset + size), in order.
  template <class Body>
  void for_ranges(std::size_t offset, std::size_t size, const Body& body) const {
    const std::size_t end = offset + size;
    for (const Range& range : ranges_) {
      const std::size_t first = std::max(offset, range.begin), last = std::min(end, range.end);
      if (first < last) body(first, last - first, range.coefficient);
    }
  }

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
    float coefficient = 0;
  };
  std::vector<Range> ranges_;  ///< cover the arena; neighbours differ in their coefficient
};

/// SGD with one momentum buffer. It holds the momentum of gradient and decay together, or of the decay alone if the
/// gradient's momentum was applied before the exchange. In the second form a slice that never decays needs no buffer.
class Sgd final : public Optimizer {
 public:
  Sgd(const Settings& settings, ParameterArena& arena)
      : arena_(arena),
        decay_(settings, arena),
        momentum_(static_cast<float>(settings.number("momentum"))),
        nesterov_(settings.flag("nesterov")) {
    if (nesterov_ && momentum_ == 0) throw ConfigError("nesterov = true needs a momentum above 0");
    if (momentum_ > 0) buffer_ = make_state(arena);
  }

  void begin_step(double learning_rate, std::uint64_t /*step*/) override {
    learning_rate_ = static_cast<float>(learning_rate);
  }

  void update(const Slice& slice, const GradientView& gradient, float scale) override {
    DRAGONN_CHECK(!slice.learning_rate_applied || slice.momentum_applied || momentum_ == 0,
                  "sgd: the learning rate cannot be applied before the optimizer's momentum {}", momentum_);
    const auto rule = [&](float decay) {
      return kernels::SgdRule{
          learning_rate_, scale, momentum_, decay, nesterov_, slice.momentum_applied, slice.learning_rate_applied};
    };
    if (gradient.is_sparse() && !needs_dense(slice)) {
      return kernels::sgd_update_entries(rule(0), gradient, arena_.values().subview(slice.offset, slice.size));
    }
    decay_.for_ranges(slice.offset, slice.size, [&](std::size_t offset, std::size_t size, float decay) {
      const bool uses_buffer = momentum_ > 0 && (!slice.momentum_applied || decay > 0);
      kernels::sgd_update(rule(decay), gradient.slice(offset - slice.offset, size),
                          uses_buffer ? buffer_.view().subview(offset, size) : View<float>(),
                          arena_.values().subview(offset, size));
    });
  }

  bool needs_dense(const Slice& slice) const override {
    return decay_.touches(slice.offset, slice.size) || (momentum_ > 0 && !slice.momentum_applied);
  }

  void save(Archive& archive, const std::string& prefix) const override {
    if (momentum_ > 0) kernels::put_view(archive, prefix + "momentum", buffer_.view());
  }
  void load(const Archive& archive, const std::string& prefix) override {
    if (momentum_ > 0) kernels::get_view(archive, prefix + "momentum", buffer_.view());
  }

 private:
  ParameterArena& arena_;
  WeightDecay decay_;
  float momentum_;
  bool nesterov_;
  float learning_rate_ = 0;
  Buffer<float> buffer_;  ///< [arena], zeros before the first step; empty without momentum
};

const Registration<OptimizerEntry> sgd{[](OptimizerEntry& entry) {
  entry.name = "sgd";
  entry.summary = "stochastic gradient descent with momentum, Nesterov momentum, weight decay";
  entry.source = "Sutskever et al., On the importance of initialization and momentum in deep learning, ICML 2013";
  entry.settings = WeightDecay::specs(1e-4, {{"momentum", 0.9, "momentum coefficient; 0: none", 0.0, 1.0},
                                             {"nesterov", false, "true: use Nesterov momentum"}});
  entry.floats_per_parameter = 1;
  entry.has_momentum = entry.allows_folded = true;
  entry.make = [](const Settings& settings, ParameterArena& arena) { return std::make_unique<Sgd>(settings, arena); };
}};

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

  void update(const Slice& slice, const GradientView& gradient, float scale) override {
    DRAGONN_CHECK(!slice.momentum_applied && !slice.learning_rate_applied,
                  "adam is not defined on a gradient with momentum or learning rate in it");
    rule_.scale = scale;
    decay_.for_ranges(slice.offset, slice.size, [&](std::size_t offset, std::size_t size, float decay) {
      rule_.weight_decay = decay;
      kernels::adam_update(rule_, gradient.slice(offset - slice.offset, size), first_.view().subview(offset, size),
                           second_.view().subview(offset, size), arena_.values().subview(offset, size));
    });
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
  ParameterArena& arena_;
  WeightDecay decay_;
  double beta1_;
  double beta2_;
  bool bias_correction_;
  kernels::AdamRule rule_;
  Buffer<float> first_;   ///< m, [arena]
  Buffer<float> second_;  ///< v, [arena]
};

SettingSpecs adam_specs(double weight_decay) {
  // The largest value below 1 that survives the rounding to float.
  constexpr double kBelowOne = 1.0 - 0x1p-24;
  return WeightDecay::specs(
      weight_decay, {{"beta1", 0.9, "decay rate of the mean of the gradients", 0.0, kBelowOne},
                     {"beta2", 0.999, "decay rate of the mean of the squared gradients", 0.0, kBelowOne},
                     SettingSpec::number("epsilon", 1e-8, "added to the root of the second moment", 0).above_minimum(),
                     {"bias_correction", true, "true: correct the moments for their start at zero"}});
}

OptimizerEntry adam_entry(const std::string& name, const std::string& summary, const std::string& source,
                          bool decoupled) {
  return {{name, summary, source, adam_specs(decoupled ? 0.01 : 0.0)},
          2,
          false,
          false,
          [decoupled](const Settings& settings, ParameterArena& arena) -> std::unique_ptr<Optimizer> {
            return std::make_unique<Adam>(settings, arena, decoupled);
          }};
}

const Registration<OptimizerEntry> adam{
    adam_entry("adam", "Adam, weight decay added to the gradient", "arXiv:1412.6980, algorithm 1", false)};
const Registration<OptimizerEntry> adamw{
    adam_entry("adamw", "Adam with decoupled weight decay", "arXiv:1711.05101, algorithm 2", true)};

}  // namespace
}  // namespace dragonn::optim

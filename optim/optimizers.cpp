// SPDX-License-Identifier: MIT
/// The optimizers: `sgd` (plain, heavy-ball, Nesterov), `adam` (decay is part of the gradient) and `adamw` (decoupled).
#include <memory>
#include <string>

#include "core/error.h"
#include "kernels/devices.h"
#include "optim/optimizer.h"
#include "optim/optimizer_parts.h"
#include "optim/weight_decay.h"

namespace dragonn::optim {
namespace {

using kernels::GradientView;

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
    if (momentum_ > 0) buffer_ = zeros(arena.size(), arena);
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
    if (gradient.is_sparse() && !needs_dense(slice))
      return kernels::sgd_update_entries(rule(0), gradient, arena_.values().subview(slice.offset, slice.size));
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

  std::vector<StateArray> state() override {
    if (momentum_ > 0) return {{"momentum", buffer_.view()}};
    return {};
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

/// Moments decay at every coordinate, even where the exchanged gradient is zero, so every step sweeps the slice.
class Adam final : public Optimizer {
 public:
  Adam(const Settings& settings, ParameterArena& arena, bool decoupled)
      : arena_(arena),
        decay_(settings, arena),
        steps_(settings, decoupled),
        first_(zeros(arena.size(), arena)),
        second_(zeros(arena.size(), arena)) {}

  void begin_step(double learning_rate, std::uint64_t step) override { steps_.begin_step(learning_rate, step); }

  void update(const Slice& slice, const GradientView& gradient, float scale) override {
    DRAGONN_CHECK(!slice.momentum_applied && !slice.learning_rate_applied,
                  "adam is not defined on a gradient with momentum or learning rate in it");
    decay_.for_ranges(slice.offset, slice.size, [&](std::size_t offset, std::size_t size, float decay) {
      kernels::adam_update(steps_.rule(scale, decay), gradient.slice(offset - slice.offset, size),
                           first_.view().subview(offset, size), second_.view().subview(offset, size),
                           arena_.values().subview(offset, size));
    });
  }
  bool needs_dense(const Slice& /*slice*/) const override { return true; }

  std::vector<StateArray> state() override { return {{"first", first_.view()}, {"second", second_.view()}}; }

 private:
  ParameterArena& arena_;
  WeightDecay decay_;
  AdamSteps steps_;
  Buffer<float> first_;   ///< m, [arena]
  Buffer<float> second_;  ///< v, [arena]
};

OptimizerEntry adam_entry(const std::string& name, const std::string& summary, const std::string& source,
                          bool decoupled) {
  return {{name, summary, source, WeightDecay::specs(decoupled ? 0.01 : 0.0, AdamSteps::specs(0.999))},
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

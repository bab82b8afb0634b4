// SPDX-License-Identifier: MIT
/// The optimizer `sgd`: plain, heavy-ball momentum, Nesterov.
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

using kernels::GradientView;
using kernels::SgdRule;

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

  void update(const Slice& slice, View<const float> gradient, float scale) override {
    check(slice, gradient.size());
    sweep(slice, GradientView(gradient), scale);
  }

  void update(const Slice& slice, const SparseVector& gradient, float scale) override {
    check(slice, slice.size);
    const GradientView view(gradient, slice.size);
    if (needs_dense(slice)) {
      sweep(slice, view, scale);
    } else {
      kernels::sgd_update_entries(rule(slice, scale, 0), view, arena_.values().subview(slice.offset, slice.size));
    }
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
  void check(const Slice& slice, std::size_t gradient_size) const {
    DRAGONN_CHECK(gradient_size == slice.size, "sgd: a gradient of {} elements for a slice of {}", gradient_size,
                  slice.size);
    DRAGONN_CHECK(!slice.learning_rate_applied || slice.momentum_applied || momentum_ == 0,
                  "sgd: the learning rate cannot be applied before the optimizer's momentum {}", momentum_);
  }

  SgdRule rule(const Slice& slice, float scale, float decay) const {
    return {learning_rate_, scale, momentum_, decay, nesterov_, slice.momentum_applied, slice.learning_rate_applied};
  }

  void sweep(const Slice& slice, const GradientView& gradient, float scale) {
    decay_.for_ranges(slice.offset, slice.size, [&](std::size_t offset, std::size_t size, float decay) {
      const bool uses_buffer = momentum_ > 0 && (!slice.momentum_applied || decay > 0);
      kernels::sgd_update(rule(slice, scale, decay), gradient.slice(offset - slice.offset, size),
                          uses_buffer ? buffer_.view().subview(offset, size) : View<float>(),
                          arena_.values().subview(offset, size));
    });
  }

  ParameterArena& arena_;
  WeightDecay decay_;
  float momentum_;
  bool nesterov_;
  float learning_rate_ = 0;
  Buffer<float> buffer_;  ///< [arena], zeros before the first step; empty without momentum
};

SettingSpecs specs() {
  SettingSpecs result{{"momentum", 0.9, "momentum coefficient; 0: none", 0.0, 1.0},
                      {"nesterov", false, "true: use Nesterov momentum"}};
  for (SettingSpec& spec : WeightDecay::specs(1e-4)) result.push_back(std::move(spec));
  return result;
}

std::unique_ptr<Optimizer> make(const Settings& settings, ParameterArena& arena) {
  return std::make_unique<Sgd>(settings, arena);
}

const Registration<OptimizerEntry> registration{
    {{"sgd", "stochastic gradient descent with momentum, Nesterov momentum, weight decay",
      "Sutskever et al., On the importance of initialization and momentum in deep learning, ICML 2013", specs()},
     1,
     true,
     true,
     make}};

}  // namespace
}  // namespace dragonn::optim

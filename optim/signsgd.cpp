// SPDX-License-Identifier: MIT
/// The optimizer `signsgd`: every parameter moves by the learning rate, against the sign of its gradient.
#include <memory>
#include <string>

#include "optim/optimizer.h"
#include "optim/weight_decay.h"

namespace dragonn::optim {
namespace {

/// Keeps no state: DeMo's momentum is the residual of the exchange. Signs do not tell whether a gradient contains the
/// learning rate or a momentum already.
class SignSgd final : public Optimizer {
 public:
  SignSgd(const Settings& settings, ParameterArena& arena) : arena_(arena), decay_(settings, arena) {}

  void begin_step(double learning_rate, std::uint64_t /*step*/) override { learning_rate_ = learning_rate; }

  void update(const Slice& slice, const kernels::GradientView& gradient, float /*scale*/) override {
    decay_.for_ranges(slice.offset, slice.size, [&](std::size_t offset, std::size_t size, float decay) {
      kernels::sign_update({.learning_rate = static_cast<float>(learning_rate_),
                            .keep = static_cast<float>(1.0 - learning_rate_ * static_cast<double>(decay))},
                           gradient.slice(offset - slice.offset, size), arena_.values().subview(offset, size));
    });
  }
  bool needs_dense(const Slice& slice) const override { return decay_.touches(slice.offset, slice.size); }

  std::vector<StateArray> state() override { return {}; }

 private:
  ParameterArena& arena_;
  WeightDecay decay_;
  double learning_rate_ = 0;
};

const Registration<OptimizerEntry> registration{[](OptimizerEntry& entry) {
  entry.name = "signsgd";
  entry.summary = "signSGD: every parameter moves by the learning rate, against its gradient's sign; decoupled decay";
  entry.source = "Bernstein et al., arXiv:1802.04434, algorithm 1; DeMo, arXiv:2411.19870, algorithm 1";
  entry.settings = WeightDecay::specs(0, {});
  entry.allows_folded = true;
  entry.make = [](const Settings& settings, ParameterArena& arena) {
    return std::make_unique<SignSgd>(settings, arena);
  };
}};

}  // namespace
}  // namespace dragonn::optim

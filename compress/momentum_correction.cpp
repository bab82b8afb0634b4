// SPDX-License-Identifier: MIT
#include <cmath>

#include "compress/memory.h"
#include "kernels/devices.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::compress {
namespace {

/// Applies the momentum u before the error memory v, so that a waiting coordinate collects the moves that momentum SGD
/// would have made. acc is v. Contributed entries of v are zeroed; masking zeroes those of u, too, so that stale
/// momentum does not push a coordinate that was just sent.
/// A dense exchange empties v but leaves u alone: v is then u at every step, which is momentum SGD, and the momentum
/// carries over between dense and sparse phases. A quantizer sends a part of every entry, and masks none.
class MomentumCorrection final : public Memory {
 public:
  MomentumCorrection(const kernels::MomentumRule& rule, bool masking, std::size_t numel, const Device& device)
      : rule_(rule), masking_(masking), momentum_(numel, device), velocity_(numel, device), pass_(device) {
    kernels::fill(0, momentum_.view());
    kernels::fill(0, velocity_.view());
    pass_.reserve(numel);
  }

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    rule_.scale = scale;
    kernels::accumulate_momentum(request, gradient, rule_, momentum_.view(), velocity_.view(), pass_);
    return pass_;
  }
  View<const float> accumulated() const override { return velocity_.view(); }

  void settle(const Settlement& settlement) override {
    settle_residual(settlement, velocity_.view());
    const bool sparse = !settlement.contributed_all && settlement.codec == nullptr;
    if (masking_ && sparse) {
      kernels::scatter_zero(settlement.masked.value_or(settlement.contributed), momentum_.view());
    }
  }

  double residual_norm() const override { return std::sqrt(kernels::magnitude_moments(velocity_.view()).sum_squares); }
  View<const float> residual() const override { return velocity_.view(); }

  void save(Archive& archive, const std::string& prefix) const override {
    kernels::put_view(archive, prefix + "momentum", momentum_.view());
    kernels::put_view(archive, prefix + "velocity", velocity_.view());
  }
  void load(const Archive& archive, const std::string& prefix) override {
    kernels::get_view(archive, prefix + "momentum", momentum_.view());
    kernels::get_view(archive, prefix + "velocity", velocity_.view());
  }
  void add(const Archive& archive, const std::string& prefix) override {
    add_saved(archive, prefix + "momentum", momentum_.view());
    add_saved(archive, prefix + "velocity", velocity_.view());
  }

 private:
  kernels::MomentumRule rule_;
  bool masking_;
  Buffer<float> momentum_;
  Buffer<float> velocity_;
  kernels::PassResult pass_;
};

const Registration<MemoryEntry> registration{[] {
  MemoryEntry entry;
  entry.name = "momentum_correction";
  entry.summary = "applies the momentum on each worker, before error feedback (DGC)";
  entry.source = "arXiv:1712.01887 (DGC), section 3.2; masking: section 3.3";
  entry.settings = {
      {.name = "masking", .default_value = true, .help = "true: also clear the momentum of entries that were sent"}};
  entry.floats_per_element = 2;
  entry.resize = {OnResize::kReshard, "is added up, so that the sums of all residuals and of all momenta stay"};
  entry.owns_momentum = true;
  entry.make = [](const Settings& settings, std::size_t numel, float momentum, bool nesterov, const Device& device) {
    const kernels::MomentumRule rule{.scale = 1, .momentum = momentum, .nesterov = nesterov};
    return std::make_unique<MomentumCorrection>(rule, settings.flag("masking"), numel, device);
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::compress

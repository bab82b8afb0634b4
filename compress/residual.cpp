// SPDX-License-Identifier: MIT
#include <cmath>

#include "compress/memory.h"
#include "kernels/devices.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::compress {
namespace {

/// Accumulates acc = decay * residual + scale * gradient, in place; the contributed entries are zeroed.
class Residual final : public Memory {
 public:
  Residual(float decay, std::size_t numel, const Device& device)
      : decay_(decay), residual_(numel, device), pass_(device) {
    kernels::fill(0, residual_.view());
    pass_.reserve(numel);
  }

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    kernels::accumulate_residual(request, gradient, {.scale = scale, .decay = decay_}, residual_.view(), pass_);
    return pass_;
  }
  View<const float> accumulated() const override { return residual_.view(); }

  void settle(const Settlement& settlement) override { settle_residual(settlement, residual_.view()); }

  double residual_norm() const override { return std::sqrt(kernels::magnitude_moments(residual_.view()).sum_squares); }
  View<const float> residual() const override { return residual_.view(); }

  void save(Archive& archive, const std::string& prefix) const override {
    kernels::put_view(archive, prefix + "residual", residual_.view());
  }
  void load(const Archive& archive, const std::string& prefix) override {
    kernels::get_view(archive, prefix + "residual", residual_.view());
  }
  void add(const Archive& archive, const std::string& prefix) override {
    add_saved(archive, prefix + "residual", residual_.view());
  }

 private:
  float decay_;
  Buffer<float> residual_;
  kernels::PassResult pass_;
};

const Registration<MemoryEntry> registration{[] {
  MemoryEntry entry;
  entry.name = "residual";
  entry.summary = "keeps entries that were not sent and adds them to the next gradient";
  entry.source = "arXiv:1901.04359 (gTop-k), algorithm 1; decay: GRACE, residual memory";
  entry.settings = {{.name = "decay",
                     .default_value = 1.0,
                     .help = "factor on the residual at each step; below 1, part of the gradient is lost",
                     .minimum = 0,
                     .maximum = 1}};
  entry.floats_per_element = 1;
  entry.resize = {OnResize::kReshard, "is added up, so that the sum of all residuals stays"};
  entry.make = [](const Settings& settings, std::size_t numel, float, bool, const Device& device) {
    return std::make_unique<Residual>(static_cast<float>(settings.number("decay")), numel, device);
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::compress

// SPDX-License-Identifier: MIT
/// The memories: `none`; `residual`, which keeps what was not sent; and `momentum_correction`, which applies the
/// momentum before that.
#include <cmath>
#include <utility>

#include "compress/memory.h"
#include "kernels/devices.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::compress {
namespace {

using Values = Buffer<float>;

Values zeros(std::size_t numel, const Device& device) {
  Values values(numel, device);
  kernels::fill(0, values.view());
  return values;
}

/// Adds a saved field to `values`.
void add_saved(const Archive& archive, const std::string& name, View<float> values) {
  Values saved(values.size(), values.device());
  kernels::get_view(archive, name, saved.view());
  kernels::add(values, std::as_const(saved).view(), values);
}

/// Keeps nothing: values that are not sent are lost. The accumulated gradient is the gradient itself, unless it is
/// scaled.
class None final : public Memory {
 public:
  None(std::size_t numel, const Device& device) : numel_(numel), scaled_(0, device), pass_(device) {
    pass_.reserve(numel);
  }

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    if (scale == 1.0f) {
      accumulated_ = gradient;
      kernels::examine(request, gradient, pass_);
    } else {
      scaled_.resize_discard(numel_);
      kernels::accumulate_scaled(request, gradient, scale, scaled_.view(), pass_);
      accumulated_ = scaled_.view();
    }
    return pass_;
  }
  View<const float> accumulated() const override { return accumulated_; }
  void settle(const Settlement&) override {}

  double residual_norm() const override { return 0; }
  View<const float> residual() const override { return {}; }
  void save(Archive&, const std::string&) const override {}
  void load(const Archive&, const std::string&) override {}
  void add(const Archive&, const std::string&) override {}

 private:
  std::size_t numel_;
  Buffer<float> scaled_;
  View<const float> accumulated_;
  kernels::PassResult pass_;
};

/// Accumulates acc = decay * residual + scale * gradient, in place. Settling subtracts the values that left, then adds
/// those that came back; it touches only those entries, or all of them if acc was quantized.
class Residual : public Memory {
 public:
  /// @param field names the residual in archives.
  Residual(const char* field, float decay, std::size_t numel, const Device& device)
      : residual_(zeros(numel, device)), pass_(device), field_(field), decay_(decay) {
    pass_.reserve(numel);
  }

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    kernels::accumulate_residual(request, gradient, {.scale = scale, .decay = decay_}, residual_.view(), pass_);
    return pass_;
  }
  View<const float> accumulated() const override { return residual_.view(); }

  void settle(const Settlement& settlement) override {
    const View<float> residual = residual_.view();
    if (settlement.codec != nullptr) {
      settlement.codec->sum(settlement.code, {.keep = true, .factor = -1}, residual);
    } else if (settlement.remainder.size() > 0) {
      kernels::copy(settlement.remainder, residual);
    } else if (settlement.contributed_all) {
      kernels::fill(0, residual);
    } else {
      kernels::scatter_zero(settlement.contributed, residual);
    }
    if (settlement.returned != nullptr) kernels::scatter_add(*settlement.returned, residual);
  }

  double residual_norm() const override { return std::sqrt(kernels::magnitude_moments(residual_.view()).sum_squares); }
  View<const float> residual() const override { return residual_.view(); }

  void save(Archive& archive, const std::string& prefix) const override {
    kernels::put_view(archive, prefix + field_, residual_.view());
  }
  void load(const Archive& archive, const std::string& prefix) override {
    kernels::get_view(archive, prefix + field_, residual_.view());
  }
  void add(const Archive& archive, const std::string& prefix) override {
    add_saved(archive, prefix + field_, residual_.view());
  }

 protected:
  Values residual_;
  kernels::PassResult pass_;

 private:
  const char* field_;
  float decay_;
};

/// Applies the momentum u before the error memory v, so that a waiting coordinate collects the moves that momentum SGD
/// would have made. acc is v, the residual. Masking zeroes the contributed entries of u, too, so that stale momentum
/// does not push a coordinate that was just sent.
/// A dense exchange empties v but leaves u alone: v is then u at every step, which is momentum SGD, and the momentum
/// carries over between dense and sparse phases. A quantizer sends a part of every entry, and masks none.
class MomentumCorrection final : public Residual {
 public:
  MomentumCorrection(const kernels::MomentumRule& rule, bool masking, std::size_t numel, const Device& device)
      : Residual("velocity", 1, numel, device), rule_(rule), masking_(masking), momentum_(zeros(numel, device)) {}

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    rule_.scale = scale;
    kernels::accumulate_momentum(request, gradient, rule_, momentum_.view(), residual_.view(), pass_);
    return pass_;
  }

  void settle(const Settlement& settlement) override {
    Residual::settle(settlement);
    if (!masking_ || settlement.contributed_all || settlement.codec != nullptr) return;
    kernels::scatter_zero(settlement.masked.value_or(settlement.contributed), momentum_.view());
  }

  void save(Archive& archive, const std::string& prefix) const override {
    kernels::put_view(archive, prefix + "momentum", momentum_.view());
    Residual::save(archive, prefix);
  }
  void load(const Archive& archive, const std::string& prefix) override {
    kernels::get_view(archive, prefix + "momentum", momentum_.view());
    Residual::load(archive, prefix);
  }
  void add(const Archive& archive, const std::string& prefix) override {
    add_saved(archive, prefix + "momentum", momentum_.view());
    Residual::add(archive, prefix);
  }

 private:
  kernels::MomentumRule rule_;
  bool masking_;
  Values momentum_;
};

const Registration<MemoryEntry> none{[](MemoryEntry& entry) {
  entry.name = "none";
  entry.summary = "no error feedback: entries that are not sent are lost";
  entry.source = "arXiv:2101.10761 (SIDCo), figure 2";
  entry.conserves = false;
  entry.make = [](const Settings&, std::size_t numel, float, bool, const Device& device) {
    return std::make_unique<None>(numel, device);
  };
}};

const Registration<MemoryEntry> residual{[](MemoryEntry& entry) {
  entry.name = "residual";
  entry.summary = "keeps entries that were not sent and adds them to the next gradient";
  entry.source = "arXiv:1901.04359 (gTop-k), algorithm 1; decay: GRACE, residual memory";
  entry.settings = {SettingSpec::number(
      "decay", 1, "factor on the residual at each step; below 1, part of the gradient is lost", 0, 1)};
  entry.floats_per_element = 1;
  entry.resize = {OnResize::kReshard, "is added up, so that the sum of all residuals stays"};
  entry.make = [](const Settings& settings, std::size_t numel, float, bool, const Device& device) {
    return std::make_unique<Residual>("residual", static_cast<float>(settings.number("decay")), numel, device);
  };
}};

const Registration<MemoryEntry> momentum_correction{[](MemoryEntry& entry) {
  entry.name = "momentum_correction";
  entry.summary = "applies the momentum on each worker, before error feedback (DGC)";
  entry.source = "arXiv:1712.01887 (DGC), section 3.2; masking: section 3.3";
  entry.settings = {SettingSpec::flag("masking", true, "true: also clear the momentum of entries that were sent")};
  entry.floats_per_element = 2;
  entry.resize = {OnResize::kReshard, "is added up, so that the sums of all residuals and of all momenta stay"};
  entry.owns_momentum = true;
  entry.make = [](const Settings& settings, std::size_t numel, float momentum, bool nesterov, const Device& device) {
    const kernels::MomentumRule rule{.scale = 1, .momentum = momentum, .nesterov = nesterov};
    return std::make_unique<MomentumCorrection>(rule, settings.flag("masking"), numel, device);
  };
}};

}  // namespace
}  // namespace dragonn::compress

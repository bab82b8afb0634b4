// SPDX-License-Identifier: MIT
/// The memories: `none`; `residual`, which keeps what was not sent; `momentum_correction`, with the momentum before it;
/// `low_pass`, a filtered residual; and those that send changes of an estimate: `ef21`, `ef21_sgdm`, `econtrol`.
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

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
  const std::span<const std::byte> bytes = archive.bytes(name);
  if (values.device().is_cpu() && bytes.size() == values.size() * sizeof(float)) {
    const View<const float> saved(std::span(reinterpret_cast<const float*>(bytes.data()), values.size()));
    return kernels::add(values, saved, values);
  }
  Values saved(values.size(), values.device());
  kernels::get_view(archive, name, saved.view());
  kernels::add(values, std::as_const(saved).view(), values);
}

/// Keeps nothing: values that are not sent are lost. What accumulates is the gradient itself, unless it is scaled.
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
      kernels::PassRequest forgetting = request;
      forgetting.revertible = false;
      kernels::accumulate_scaled(forgetting, gradient, scale, scaled_.view(), pass_);
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

/// A memory with acc in one vector, which settling turns into the residual: it subtracts the values that left, then
/// adds those that came back. It touches only those entries, or all of them if acc was sent dense or in a code.
class Stateful : public Memory {
 public:
  Stateful(std::size_t numel, const Device& device) : residual_(zeros(numel, device)), pass_(device) {
    pass_.reserve(numel);
  }

  View<const float> accumulated() const override { return residual_.view(); }

  void settle(const Settlement& settlement) override {
    const View<float> residual = residual_.view();
    if (settlement.codec != nullptr)
      settlement.codec->sum(settlement.code, {.keep = true, .factor = -1}, residual);
    else if (settlement.remainder.size() > 0)
      kernels::copy(settlement.remainder, residual);
    else if (settlement.contributed_all)
      kernels::fill(0, residual);
    else
      kernels::scatter_zero(settlement.contributed, residual);
    if (settlement.returned != nullptr) kernels::scatter_add(*settlement.returned, residual);
  }

  void revert() override { kernels::revert_pass(pass_); }

  double residual_norm() const override { return std::sqrt(kernels::magnitude_moments(residual_.view()).sum_squares); }
  View<const float> residual() const override { return residual_.view(); }

  void save(Archive& archive, const std::string& prefix) const override {
    for (const auto& [name, values] : state_) kernels::put_view(archive, prefix + name, std::as_const(*values).view());
  }
  void load(const Archive& archive, const std::string& prefix) override {
    for (const auto& [name, values] : state_) kernels::get_view(archive, prefix + name, values->view());
  }
  void add(const Archive& archive, const std::string& prefix) override {
    for (const auto& [name, values] : state_) add_saved(archive, prefix + name, values->view());
  }

 protected:
  Values residual_;
  kernels::PassResult pass_;
  std::vector<std::pair<const char*, Values*>> state_;  ///< members that archives keep, by their names there
};

/// Accumulates acc = decay * residual + scale * gradient, in place.
class Residual final : public Stateful {
 public:
  Residual(float decay, std::size_t numel, const Device& device) : Stateful(numel, device), decay_(decay) {
    state_ = {{"residual", &residual_}};
  }

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    kernels::accumulate_residual(request, gradient, {.scale = scale, .decay = decay_}, residual_.view(), pass_);
    return pass_;
  }

 private:
  float decay_;
};

/// Applies the momentum u before the error memory v, so that a waiting coordinate collects the moves that momentum SGD
/// would have made. acc is v, the residual. Masking zeroes the contributed entries of u, too, so that stale momentum
/// does not push a coordinate that was just sent.
/// A dense exchange empties v but leaves u alone: v is then u at every step, which is momentum SGD, and the momentum
/// carries over between dense and sparse phases. A quantizer sends a part of every entry, and masks none.
///
/// A masked momentum moves a coordinate less than momentum SGD would: a tenth as far where every step sends it, with
/// momentum 0.9. Where the rate is high and few entries are sent that keeps training stable; elsewhere it only costs
/// progress. Hence a rate below which nothing is masked (ours; docs/results/accuracy.md).
class MomentumCorrection final : public Stateful {
 public:
  /// @param masking_rate entries that were sent are masked while the rate is at least this share of the base rate.
  MomentumCorrection(const kernels::MomentumRule& rule, bool masking, double masking_rate, std::size_t numel,
                     const Device& device)
      : Stateful(numel, device),
        rule_(rule),
        masking_(masking),
        masking_rate_(masking_rate),
        momentum_(zeros(numel, device)) {
    state_ = {{"momentum", &momentum_}, {"velocity", &residual_}};
  }

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    rule_.scale = scale;
    kernels::accumulate_momentum(request, gradient, rule_, momentum_.view(), residual_.view(), pass_);
    return pass_;
  }

  void settle(const Settlement& settlement) override {
    Stateful::settle(settlement);
    if (!masking_ || settlement.contributed_all || settlement.codec != nullptr) return;
    if (settlement.rate_share < masking_rate_) return;
    kernels::scatter_zero(settlement.masked.value_or(settlement.contributed), momentum_.view());
  }

 private:
  kernels::MomentumRule rule_;
  bool masking_;
  double masking_rate_;
  Values momentum_;
};

/// Filters the residual: m = (1 - beta) m + beta (m + g - sent), acc = m + g. What the exchange left of acc is
/// m + g - sent. It enters m in the next pass, so that settling touches only the entries that were sent.
class LowPass final : public Stateful {
 public:
  LowPass(float beta, std::size_t numel, const Device& device)
      : Stateful(numel, device), rule_{.keep = 1 - beta, .take = beta}, filtered_(zeros(numel, device)) {
    state_ = {{"residual", &residual_}, {"filtered", &filtered_}};
  }

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    rule_.scale = scale;
    kernels::accumulate_filtered(request, gradient, rule_, {}, filtered_.view(), residual_.view(), pass_);
    return pass_;
  }

 private:
  kernels::FilterRule rule_;
  Values filtered_;
};

/// Keeps an estimate of this rank's gradient, to which it adds what left the rank, and the sum over ranks of all
/// estimates, to which every rank adds the exchanged sum. The optimizer takes that sum.
class Estimating : public Stateful {
 public:
  Estimating(std::size_t numel, const Device& device)
      : Stateful(numel, device), estimate_(zeros(numel, device)), sum_(zeros(numel, device)) {
    state_ = {{kResidual, &residual_}, {"estimate", &estimate_}, {"sum", &sum_}};
  }

  void settle(const Settlement& settlement) override {
    const View<float> estimate = estimate_.view();
    if (settlement.codec != nullptr) {
      settlement.codec->sum(settlement.code, {.keep = true}, estimate);
    } else if (settlement.contributed_all) {
      kernels::add(std::as_const(residual_).view(), std::as_const(estimate_).view(), estimate);
      if (settlement.remainder.size() > 0)
        kernels::accumulate_residual({}, settlement.remainder, {.scale = -1}, estimate, unread_);
    } else {
      kernels::scatter_move(settlement.contributed, residual_.view(), estimate);
    }
    if (settlement.returned != nullptr) kernels::scatter_subtract(*settlement.returned, estimate);
    Stateful::settle(settlement);
  }

  View<const float> to_gradient(View<const float> dense, const SparseVector* entries) override {
    if (entries != nullptr)
      kernels::scatter_add(*entries, sum_.view());
    else
      kernels::add(std::as_const(sum_).view(), dense, sum_.view());
    return std::as_const(sum_).view();
  }

  void add(const Archive& archive, const std::string& prefix) override {
    add_saved(archive, prefix + kResidual, residual_.view());  // no rank goes on from a single rank's estimate
  }
  void load_shared(const Archive& archive, const std::string& prefix, int workers, int world_size) override {
    kernels::get_view(archive, prefix + "sum", sum_.view());
    const auto scale = [&](const Values& from, float factor, Values& to) {
      kernels::accumulate_scaled({}, from.view(), factor, to.view(), unread_);
    };
    scale(sum_, 1.0f / static_cast<float>(workers), estimate_);
    scale(estimate_, static_cast<float>(world_size), sum_);
  }

 protected:
  static constexpr const char* kResidual = "residual";

  Values estimate_, sum_;
  kernels::PassResult unread_{estimate_.device()};  ///< of passes whose results have no reader
};

/// EF21: acc = g - estimate. An exchange that is abandoned leaves no trace.
class ErrorFeedback21 final : public Estimating {
 public:
  using Estimating::Estimating;

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    kernels::accumulate_difference(request, gradient, scale, std::as_const(estimate_).view(), residual_.view(), pass_);
    return pass_;
  }
};

/// EF21-SGDM: acc = u - estimate, with the momentum u. Ranks of another number begin with the estimate as momentum.
class MomentumErrorFeedback21 final : public Estimating {
 public:
  MomentumErrorFeedback21(const kernels::MomentumRule& rule, std::size_t numel, const Device& device)
      : Estimating(numel, device), rule_(rule), momentum_(zeros(numel, device)) {
    state_.emplace_back("momentum", &momentum_);
  }

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    rule_.scale = scale;
    kernels::accumulate_momentum_difference(request, gradient, rule_, std::as_const(estimate_).view(), momentum_.view(),
                                            residual_.view(), pass_);
    return pass_;
  }
  void load_shared(const Archive& archive, const std::string& prefix, int workers, int world_size) override {
    Estimating::load_shared(archive, prefix, workers, world_size);
    kernels::copy(std::as_const(estimate_).view(), momentum_.view());
  }

 private:
  kernels::MomentumRule rule_;
  Values momentum_;
};

/// EControl: acc = eta e + g - h with the estimate h, then e = e + g - h - sent. What the exchange left of acc is
/// eta e + g - h - sent, so that e = (1 - eta) e + residual: the next pass does it.
class ErrorControl final : public Estimating {
 public:
  ErrorControl(float eta, std::size_t numel, const Device& device)
      : Estimating(numel, device), rule_{.keep = 1 - eta, .out = eta}, error_(zeros(numel, device)) {
    state_.emplace_back(kError, &error_);
  }

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    rule_.scale = scale;
    kernels::accumulate_filtered(request, gradient, rule_, std::as_const(estimate_).view(), error_.view(),
                                 residual_.view(), pass_);
    return pass_;
  }
  /// The optimizer did not step by h: nothing of g has been applied, and e = e + g.
  void abandon() override {
    kernels::add(std::as_const(residual_).view(), std::as_const(estimate_).view(), residual_.view());
  }
  void add(const Archive& archive, const std::string& prefix) override {
    Estimating::add(archive, prefix);
    add_saved(archive, prefix + kError, error_.view());
  }

 private:
  static constexpr const char* kError = "error";

  kernels::FilterRule rule_;
  Values error_;
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
    return std::make_unique<Residual>(static_cast<float>(settings.number("decay")), numel, device);
  };
}};

const Registration<MemoryEntry> momentum_correction{[](MemoryEntry& entry) {
  entry.name = "momentum_correction";
  entry.summary = "applies the momentum on each worker, before error feedback (DGC)";
  entry.source = "arXiv:1712.01887 (DGC), section 3.2; masking: section 3.3";
  entry.settings = {
      SettingSpec::flag("masking", true, "true: also clear the momentum of entries that were sent"),
      SettingSpec::number("masking_rate", 0,
                          "clear it only while the learning rate is at least this share of optimizer.learning_rate; 0: "
                          "always, as in the paper",
                          0, 1)};
  entry.floats_per_element = 2;
  entry.resize = {OnResize::kReshard, "is added up, so that the sums of all residuals and of all momenta stay"};
  entry.owns_momentum = true;
  entry.make = [](const Settings& settings, std::size_t numel, float momentum, bool nesterov, const Device& device) {
    const kernels::MomentumRule rule{.scale = 1, .momentum = momentum, .nesterov = nesterov};
    return std::make_unique<MomentumCorrection>(rule, settings.flag("masking"), settings.number("masking_rate"), numel,
                                                device);
  };
}};

const Registration<MemoryEntry> low_pass{[](MemoryEntry& entry) {
  entry.name = "low_pass";
  entry.summary = "keeps the residual through a low-pass filter, which takes a share of each new error (ScaleCom)";
  entry.source = "arXiv:2104.11125 (ScaleCom): the memory update with the discounting factor beta";
  entry.settings = {SettingSpec::number(
      "beta", 0.1, "share of a new error that enters the memory; the rest is lost; 1: as the memory residual", 0, 1)};
  entry.floats_per_element = 2;
  entry.resize = {OnResize::kReshard, "is added up, so that the sum of all filtered residuals stays"};
  entry.make = [](const Settings& settings, std::size_t numel, float, bool, const Device& device) {
    return std::make_unique<LowPass>(static_cast<float>(settings.number("beta")), numel, device);
  };
}};

const Registration<MemoryEntry> ef21{[](MemoryEntry& entry) {
  entry.name = "ef21";
  entry.summary = "sends the gradient's difference from an estimate; the optimizer takes the mean estimate (EF21)";
  entry.source = "arXiv:2106.05203 (EF21), with several nodes";
  entry.floats_per_element = 3;
  entry.estimates = true;
  entry.resize = {OnResize::kReshard, "goes on from the mean estimate, on every worker"};
  entry.make = [](const Settings&, std::size_t numel, float, bool, const Device& device) {
    return std::make_unique<ErrorFeedback21>(numel, device);
  };
}};

const Registration<MemoryEntry> ef21_sgdm{[](MemoryEntry& entry) {
  entry.name = "ef21_sgdm";
  entry.summary = "EF21 behind the momentum, which each worker applies: sends its difference from an estimate";
  entry.source = "arXiv:2305.15155 (EF21-SGDM), with eta = 1 - momentum and eta in the learning rate";
  entry.floats_per_element = 4;
  entry.estimates = true;
  entry.resize = {OnResize::kReshard, "goes on from the mean estimate, on every worker, as momentum, too"};
  entry.owns_momentum = true;
  entry.make = [](const Settings&, std::size_t numel, float momentum, bool nesterov, const Device& device) {
    const kernels::MomentumRule rule{.scale = 1, .momentum = momentum, .nesterov = nesterov};
    return std::make_unique<MomentumErrorFeedback21>(rule, numel, device);
  };
}};

const Registration<MemoryEntry> econtrol{[](MemoryEntry& entry) {
  entry.name = "econtrol";
  entry.summary = "EF21 with a share of the error fed back: no gradient is lost for good (EControl)";
  entry.source = "arXiv:2311.05645 (EControl)";
  entry.settings = {SettingSpec::number("eta", 0.1, "share of the error that is fed back at each step", 0, 1)};
  entry.floats_per_element = 4;
  entry.estimates = true;
  entry.resize = {OnResize::kReshard,
                  "goes on from the mean estimate, on every worker, and adds up the errors, so that their sum stays"};
  entry.make = [](const Settings& settings, std::size_t numel, float, bool, const Device& device) {
    return std::make_unique<ErrorControl>(static_cast<float>(settings.number("eta")), numel, device);
  };
}};

}  // namespace
}  // namespace dragonn::compress

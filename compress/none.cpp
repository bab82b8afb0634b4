// SPDX-License-Identifier: MIT
#include "compress/memory.h"

namespace dragonn::compress {
namespace {

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

const Registration<MemoryEntry> registration{[](MemoryEntry& entry) {
  entry.name = "none";
  entry.summary = "no error feedback: entries that are not sent are lost";
  entry.source = "arXiv:2101.10761 (SIDCo), figure 2";
  entry.conserves = false;
  entry.make = [](const Settings&, std::size_t numel, float, bool, const Device& device) {
    return std::make_unique<None>(numel, device);
  };
}};

}  // namespace
}  // namespace dragonn::compress

// SPDX-License-Identifier: MIT
#include "kernels/gradient/optimizer_update.h"

#include <algorithm>

#include "kernels/devices.h"
#include "kernels/operation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/optimizer_update.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/partial_sums-inl.h"

// This file is compiled once for every instruction set. The part up to HWY_ONCE is the arithmetic of one block.
HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Returns the two parts of the step: the one that the learning rate multiplies, and the one that it does not.
template <bool kHasMomentum, bool kNesterov>
void sgd_sweep(const SgdRule& rule, const float* gradient, float* momentum, float* values, std::size_t count) {
  detail::HWY_NAMESPACE::for_each_element(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto rate = hn::Set(d, rule.learning_rate);
    const auto x = hn::LoadU(d, values + i);
    const auto g = hn::Mul(hn::Set(d, rule.scale), hn::LoadU(d, gradient + i));
    const auto decay = hn::Mul(hn::Set(d, rule.weight_decay), x);
    const bool gradient_apart = rule.momentum_applied || rule.learning_rate_applied;
    auto step = gradient_apart ? decay : hn::Add(g, decay);
    if constexpr (kHasMomentum) {
      const auto mu = hn::Set(d, rule.momentum);
      const auto b = hn::Add(hn::Mul(mu, hn::LoadU(d, momentum + i)), step);
      hn::StoreU(b, d, momentum + i);
      step = kNesterov ? hn::Add(step, hn::Mul(mu, b)) : b;
    }
    auto change = hn::Mul(rate, step);
    if (gradient_apart) change = rule.learning_rate_applied ? hn::Add(g, change) : hn::Mul(rate, hn::Add(g, step));
    hn::StoreU(hn::Sub(x, change), d, values + i);
  });
}

void SgdBlock(const SgdRule& rule, const float* gradient, float* momentum, float* values, std::size_t count) {
  if (momentum == nullptr)
    sgd_sweep<false, false>(rule, gradient, nullptr, values, count);
  else if (rule.nesterov)
    sgd_sweep<true, true>(rule, gradient, momentum, values, count);
  else
    sgd_sweep<true, false>(rule, gradient, momentum, values, count);
}

void AdamBlock(const AdamRule& rule, const float* gradient, float* first, float* second, float* values,
               std::size_t count) {
  detail::HWY_NAMESPACE::for_each_element(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, values + i);
    const auto decay = hn::Mul(hn::Set(d, rule.weight_decay), x);
    auto g = hn::Mul(hn::Set(d, rule.scale), hn::LoadU(d, gradient + i));
    if (!rule.decoupled) g = hn::Add(g, decay);
    const auto m =
        hn::Add(hn::Mul(hn::Set(d, rule.beta1), hn::LoadU(d, first + i)), hn::Mul(hn::Set(d, rule.one_minus_beta1), g));
    const auto v = hn::Add(hn::Mul(hn::Set(d, rule.beta2), hn::LoadU(d, second + i)),
                           hn::Mul(hn::Set(d, rule.one_minus_beta2), hn::Mul(g, g)));
    hn::StoreU(m, d, first + i);
    hn::StoreU(v, d, second + i);
    const auto root = hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, rule.root_correction)), hn::Set(d, rule.epsilon));
    auto change = hn::Div(hn::Mul(hn::Set(d, rule.step_size), m), root);
    if (rule.decoupled) change = hn::Add(change, hn::Mul(hn::Set(d, rule.learning_rate), decay));
    hn::StoreU(hn::Sub(x, change), d, values + i);
  });
}

void SignBlock(const SignRule& rule, const float* gradient, float* values, std::size_t count) {
  detail::HWY_NAMESPACE::for_each_element(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, gradient + i);
    const auto step = hn::IfThenElseZero(hn::Ne(g, hn::Zero(d)), hn::CopySign(hn::Set(d, rule.learning_rate), g));
    hn::StoreU(hn::Sub(hn::Mul(hn::Set(d, rule.keep), hn::LoadU(d, values + i)), step), d, values + i);
  });
}

}  // namespace dragonn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
HWY_EXPORT(SgdBlock);
HWY_EXPORT(AdamBlock);
HWY_EXPORT(SignBlock);

namespace {

/// The elements per block: a scattered sparse gradient of this many floats stays in the first-level cache.
constexpr std::size_t kBlock = 2048;

/// Calls body(begin, count, gradient block) for all blocks of [0, gradient.size()), in parallel. A body dispatches anew
/// for every block: a dispatched function that was looked up before its first call detects the processor at each call.
template <class Body>
void for_blocks(const GradientView& gradient, const Body& body) {
  const std::size_t size = gradient.size();
  const auto blocks = static_cast<std::int64_t>((size + kBlock - 1) / kBlock);
#pragma omp parallel for schedule(static) if (blocks > 16)
  for (std::int64_t block = 0; block < blocks; ++block) {
    float scratch[kBlock];
    const std::size_t begin = static_cast<std::size_t>(block) * kBlock;
    const std::size_t count = std::min(kBlock, size - begin);
    body(begin, count, gradient.block(begin, count, scratch));
  }
}

void check_view(const char* what, const View<float>& view, const GradientView& gradient) {
  if (view.size() != gradient.size())
    throw ShapeError(fmt::format("{} of {} elements for a gradient of {}", what, view.size(), gradient.size()));
}

void sgd_cpu(const SgdRule& rule, const GradientView& gradient, View<float> momentum, View<float> values) {
  float* const b = momentum.data();
  for_blocks(gradient, [&](std::size_t begin, std::size_t count, const float* g) {
    HWY_DYNAMIC_DISPATCH(SgdBlock)(rule, g, b == nullptr ? nullptr : b + begin, values.data() + begin, count);
  });
}

void sgd_entries_cpu(const SgdRule& rule, const GradientView& gradient, View<float> values) {
  const auto x = values.host();
  const auto g = gradient.values().host();
  const float rate = rule.learning_rate_applied ? 1.0f : rule.learning_rate;
  for (std::size_t entry = 0; entry < gradient.entries(); ++entry)
    x[gradient.index(entry)] -= rate * (rule.scale * g[entry]);
}

void adam_cpu(const AdamRule& rule, const GradientView& gradient, View<float> first, View<float> second,
              View<float> values) {
  for_blocks(gradient, [&](std::size_t begin, std::size_t count, const float* g) {
    HWY_DYNAMIC_DISPATCH(AdamBlock)
    (rule, g, first.data() + begin, second.data() + begin, values.data() + begin, count);
  });
}

void sign_cpu(const SignRule& rule, const GradientView& gradient, View<float> values) {
  for_blocks(gradient, [&](std::size_t begin, std::size_t count, const float* g) {
    HWY_DYNAMIC_DISPATCH(SignBlock)(rule, g, values.data() + begin, count);
  });
}

bool sgd_fits(const SgdRule&, const GradientView& gradient, View<float> momentum, View<float> values) {
  check_view("parameters", values, gradient);
  if (!momentum.empty()) check_view("momentum", momentum, gradient);
  return true;
}

bool sgd_entries_fits(const SgdRule& rule, const GradientView& gradient, View<float> values) {
  check_view("parameters", values, gradient);
  DRAGONN_CHECK(gradient.is_sparse() && rule.weight_decay == 0 && (rule.momentum == 0 || rule.momentum_applied),
                "a sparse update with weight decay {} and momentum {}", rule.weight_decay, rule.momentum);
  return true;
}

bool adam_fits(const AdamRule&, const GradientView& gradient, View<float> first, View<float> second,
               View<float> values) {
  check_view("parameters", values, gradient);
  check_view("first moments", first, gradient);
  check_view("second moments", second, gradient);
  return true;
}

bool sign_fits(const SignRule&, const GradientView& gradient, View<float> values) {
  check_view("parameters", values, gradient);
  return true;
}

}  // namespace

GradientView::GradientView(const SparseVector& sparse, std::size_t size)
    : indices_(sparse.indices.view()), values_(sparse.values.view()), size_(size), is_sparse_(true) {
  if (sparse.empty()) return;
  std::uint32_t last = 0;
  transfer(indices_.subview(sparse.size() - 1, 1), View<std::uint32_t>(std::span(&last, 1)));
  if (last >= size) throw ShapeError(fmt::format("index {} in a sparse gradient of {} elements", last, size));
}

std::size_t GradientView::first_entry_at(std::size_t position) const {
  const auto indices = indices_.host();
  return static_cast<std::size_t>(std::ranges::lower_bound(indices, origin_ + position) - indices.begin());
}

GradientView GradientView::slice(std::size_t offset, std::size_t count) const {
  if (!is_sparse_) return GradientView(values_.subview(offset, count));
  DRAGONN_CHECK(offset <= size_ && count <= size_ - offset, "part [{}, {}+{}) of a gradient of {} elements", offset,
                offset, count, size_);
  GradientView part = *this;
  part.size_ = count;
  part.origin_ = origin_ + offset;
  if (!device().is_cpu()) return part;
  const std::size_t begin = first_entry_at(offset), end = first_entry_at(offset + count);
  part.indices_ = indices_.subview(begin, end - begin);
  part.values_ = values_.subview(begin, end - begin);
  return part;
}

const float* GradientView::block(std::size_t begin, std::size_t count, float* scratch) const {
  if (!is_sparse_) return values_.data() + begin;
  std::fill_n(scratch, count, 0.0f);
  const std::size_t end = begin + count;
  for (std::size_t entry = first_entry_at(begin); entry < entries() && index(entry) < end; ++entry)
    scratch[index(entry) - begin] = values_.data()[entry];
  return scratch;
}

constinit decltype(sgd_update) sgd_update("sgd_update", sgd_cpu, sgd_fits);
constinit decltype(sgd_update_entries) sgd_update_entries("sgd_update_entries", sgd_entries_cpu, sgd_entries_fits);
constinit decltype(adam_update) adam_update("adam_update", adam_cpu, adam_fits);
constinit decltype(sign_update) sign_update("sign_update", sign_cpu, sign_fits);

}  // namespace dragonn::kernels
#endif  // HWY_ONCE

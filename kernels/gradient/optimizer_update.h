// SPDX-License-Identifier: MIT
/// Optimizer updates: the elementwise updates, one sweep over parameters, state and gradient.
///
/// Results do not depend on the instruction set (products and sums are rounded one by one, nothing is fused), on the
/// number of threads, on whether the gradient is dense or sparse, or on the device. All arguments are on one device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "core/view.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// A gradient of `size()` elements: all of them, or the entries that are not zero, by ascending index. Owns nothing.
class GradientView {
 public:
  explicit GradientView(View<const float> dense) : values_(dense), size_(dense.size()) {}
  /// Views a sparse gradient. @throws ShapeError if the last index is not below `size`; for memory of a GPU this check
  /// waits.
  GradientView(const SparseVector& sparse, std::size_t size);

  std::size_t size() const { return size_; }
  bool is_sparse() const { return is_sparse_; }
  const Device& device() const { return values_.device(); }
  /// Returns the part [offset, offset + count). O(log entries) for a sparse gradient on the CPU. On a GPU it keeps all
  /// entries, among which the kernels find those of the part.
  GradientView slice(std::size_t offset, std::size_t count) const;

  /// Returns elements [begin, begin + count) as floats: the dense gradient's own memory, or `scratch` ([count]) filled.
  /// CPU only.
  const float* block(std::size_t begin, std::size_t count, float* scratch) const;

  std::size_t entries() const { return indices_.size(); }
  /// Returns the index within this view of entry `entry` of a sparse gradient (CPU only).
  std::size_t index(std::size_t entry) const { return indices_.data()[entry] - origin_; }
  View<const float> values() const { return values_; }
  /// The indices of a sparse gradient in the sparse vector, where this view's element 0 has the index origin().
  View<const std::uint32_t> indices() const { return indices_; }
  std::size_t origin() const { return origin_; }

 private:
  std::size_t first_entry_at(std::size_t position) const;

  View<const std::uint32_t> indices_;
  View<const float> values_;
  std::size_t size_ = 0;
  std::size_t origin_ = 0;  ///< index in the sparse vector of this view's element 0
  bool is_sparse_ = false;
};

/// Stochastic gradient descent with momentum mu, on x with gradient g' = scale * g and decay w = weight_decay * x:
///
///     d = g' + w;  b <- mu b + d;  x <- x - eta b               (Nesterov: eta (d + mu b))
///     momentum_applied:  b <- mu b + w;  x <- x - eta (g' + b)  (Nesterov: eta (g' + w + mu b))
///
/// without momentum x <- x - eta (g' + w). With learning_rate_applied g' is subtracted as it is and only the rest is
/// multiplied by eta. b starts as zeros, which gives the first step's b = d.
struct SgdRule {
  float learning_rate = 0;
  float scale = 1;  ///< factor on the gradient: 1 / ranks, times a clip factor
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
  bool momentum_applied = false;
  bool learning_rate_applied = false;
};
/// Updates parameters by SGD. @param momentum [n], or empty without momentum.  @param values [n].
extern Operation<void(const SgdRule& rule, const GradientView& gradient, View<float> momentum, View<float> values)>
    sgd_update;
/// Updates parameters by SGD if coordinates without gradient stay as they are: no decay, and momentum 0 or applied
/// already. Touches only the entries of a sparse gradient, O(entries). No state.
extern Operation<void(const SgdRule& rule, const GradientView& gradient, View<float> values)> sgd_update_entries;

/// Adam (Kingma and Ba, arXiv:1412.6980) and AdamW (Loshchilov and Hutter, arXiv:1711.05101), on g' = scale * g:
///
///     g' <- g' + weight_decay x   (unless decoupled)
///     m <- beta1 m + (1 - beta1) g';  v <- beta2 v + (1 - beta2) g'^2
///     x <- x - (step_size m / (sqrt(v) root_correction + epsilon) + decoupled: learning_rate weight_decay x)
///
/// step_size = eta / (1 - beta1^t) and root_correction = 1 / sqrt(1 - beta2^t) with bias correction, else eta and 1.
struct AdamRule {
  float learning_rate = 0;
  float scale = 1;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float one_minus_beta1 = 0.1f;  ///< rounded from double: 1 - beta in float32 would be off by 1e-4 for 0.999
  float one_minus_beta2 = 0.001f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  bool decoupled = false;
  float step_size = 0;
  float root_correction = 1;
};
/// Updates parameters by Adam. @param first m, [n].  @param second v, [n].  @param values [n].
extern Operation<void(const AdamRule& rule, const GradientView& gradient, View<float> first, View<float> second,
                      View<float> values)>
    adam_update;

/// The rule of signSGD (Bernstein et al., arXiv:1802.04434), with decoupled decay before the step:
///
///     x <- keep x - learning_rate sign(g)
///
/// sign(0) = 0 of both zeros, and keep = 1 - eta weight_decay.
struct SignRule {
  float learning_rate = 0;
  float keep = 1;
};
/// Updates parameters by signSGD. @param values [n].
extern Operation<void(const SignRule& rule, const GradientView& gradient, View<float> values)> sign_update;

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
#include "bench/large_product.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "core/error.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::bench {

LargeProduct::LargeProduct(const Device& device)
    : side_(device.is_cpu() ? 2048 : 8192),
      a_(static_cast<std::size_t>(side_ * side_), device),
      b_(a_.size(), device),
      c_(a_.size(), device),
      saved_(0, device),
      scratch_(0, device) {
  kernels::fill(0.5f, a_.view());
  kernels::fill(0.25f, b_.view());
  if (device.is_cpu()) return;
  plan_ = kernels::make_linear_plan(
      device, {.batch = side_, .inputs = side_, .outputs = side_, .bias = false, .training = false});
  saved_.resize_discard(plan_->memory().saved);
  scratch_.resize_discard(plan_->memory().forward_scratch);
}

void LargeProduct::run() {
  if (plan_ != nullptr) {
    plan_->forward({a_.view(), b_.view(), {}, c_.view(), saved_.view(), scratch_.view()});
    return kernels::synchronize(c_.device());
  }
  const dnnl_status_t status =
      dnnl_sgemm('N', 'N', side_, side_, side_, 1.0f, a_.data(), side_, b_.data(), side_, 0.0f, c_.data(), side_);
  DRAGONN_CHECK(status == dnnl_success, "oneDNN's sgemm failed with status {}", static_cast<int>(status));
}

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
#include "kernels/nn/attention_cache.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "core/error.h"
#include "kernels/nn/loss_rows.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels {

AttentionCache::AttentionCache(std::int64_t steps, std::int64_t width, std::int64_t heads)
    : steps_(steps),
      width_(width),
      heads_(heads),
      depth_(width / heads),
      keys_(static_cast<std::size_t>(steps * width)),
      values_(keys_.size()) {}

void AttentionCache::attend(View<const float> input, std::size_t before, View<float> output) {
  const auto rows = static_cast<std::int64_t>(output.size()) / width_, first = static_cast<std::int64_t>(before);
  const std::int64_t seen = first + rows, stride = 3 * width_;
  if (rows * width_ != static_cast<std::int64_t>(output.size()) || input.size() != 3 * output.size() || seen > steps_)
    throw ShapeError(fmt::format("attention on steps {} to {} of {} of width {}: {} inputs, {} outputs", before, seen,
                                 steps_, width_, input.size(), output.size()));
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), heads_));
  const std::size_t slot = aligned_floats(static_cast<std::size_t>(rows * seen));
  weights_.resize_discard(static_cast<std::size_t>(threads) * slot);
  const std::span<const float> inputs = input.host();
  const std::span<float> results = output.host();
  const float scale = 1.0f / std::sqrt(static_cast<float>(depth_));
  std::atomic<bool> failed = false;  // errors must not leave a thread
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t head = 0; head < heads_; ++head) {
    const float* queries = inputs.data() + head * depth_;
    float* keys = keys_.data() + head * steps_ * depth_;
    float* values = values_.data() + head * steps_ * depth_;
    float* weights = weights_.data() + static_cast<std::size_t>(omp_get_thread_num()) * slot;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(queries + row * stride + width_, depth_, keys + (first + row) * depth_);
      std::copy_n(queries + row * stride + 2 * width_, depth_, values + (first + row) * depth_);
    }
    const auto product = [&](char form, std::int64_t columns, std::int64_t inner, float factor, const float* a,
                             std::int64_t a_stride, const float* b, float* result, std::int64_t result_stride) {
      if (dnnl_sgemm('N', form, rows, columns, inner, factor, a, a_stride, b, depth_, 0.0f, result, result_stride) !=
          dnnl_success)
        failed = true;
    };
    product('T', seen, depth_, scale, queries, stride, keys, weights, seen);
    for (std::int64_t row = 0; row < rows; ++row) {
      float* own = weights + row * seen;
      const std::int64_t visible = first + row + 1;
      std::fill(own + visible, own + seen, 0.0f);
      if (!detail::softmax_row(own, static_cast<std::size_t>(visible)))
        std::fill_n(own, visible, std::numeric_limits<float>::quiet_NaN());
    }
    product('N', depth_, seen, 1, weights, seen, values, results.data() + head * depth_, width_);
  }
  DRAGONN_CHECK(!failed, "oneDNN's sgemm failed");
}

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
#include "bench/large_product.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "core/error.h"
#include "core/rng.h"

namespace dragonn::bench {
namespace {

class CpuProduct final : public LargeProduct {
 public:
  explicit CpuProduct(std::int64_t side)
      : LargeProduct(side), a_(draw_factor(elements(), 1)), b_(draw_factor(elements(), 2)), c_(elements()) {}

  void run() override {
    const std::int64_t n = side();
    const dnnl_status_t status = dnnl_sgemm('N', 'N', n, n, n, 1.0f, a_.data(), n, b_.data(), n, 0.0f, c_.data(), n);
    DRAGONN_CHECK(status == dnnl_success, "oneDNN's sgemm failed with status {}", static_cast<int>(status));
  }

 private:
  std::vector<float> a_, b_, c_;
};

std::unique_ptr<LargeProduct> make_on_cpu(const Device& /*device*/, kernels::DeviceMath /*math*/, std::int64_t side) {
  return std::make_unique<CpuProduct>(side);
}

}  // namespace

constinit decltype(make_large_product) make_large_product("large product", make_on_cpu);

std::vector<float> draw_factor(std::size_t elements, std::uint64_t seed) {
  constexpr std::size_t kDrawn = std::size_t{1} << 20;
  std::vector<float> values(elements);
  Rng stream(seed, "large product");
  for (std::size_t i = 0; i < elements; ++i) values[i] = i < kDrawn ? stream.normal() : values[i - kDrawn];
  return values;
}

}  // namespace dragonn::bench

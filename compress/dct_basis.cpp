// SPDX-License-Identifier: MIT
#include "compress/dct_basis.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "compress/tiles.h"
#include "kernels/gradient/select.h"
#include "kernels/gradient/tile_transform.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::compress {
namespace {

using kernels::TransformDirection;

std::vector<kernels::TiledMatrix> tiles_of(std::size_t numel, std::span<const Shape> tensors, std::size_t chunk) {
  std::vector<kernels::TiledMatrix> matrices;
  for_each_tensor(numel, tensors, [&](const Shape& tensor) { matrices.push_back(cut_into_tiles(tensor, chunk)); });
  return matrices;
}

class DctBasis final : public Memory {
 public:
  DctBasis(std::unique_ptr<Memory> memory, std::size_t numel, std::vector<kernels::TiledMatrix> matrices,
           std::size_t chunk, const Device& device)
      : memory_(std::move(memory)),
        matrices_(std::move(matrices)),
        bases_(matrices_, device),
        transformed_(numel, device),
        restored_(numel, device),
        field_(fmt::format("dct{}/", chunk)) {}

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    kernels::transform_tiles(gradient, matrices_, bases_, TransformDirection::kForward, transformed_.view());
    return memory_->compensate(request, std::as_const(transformed_).view(), scale);
  }
  View<const float> accumulated() const override { return memory_->accumulated(); }
  void settle(const Settlement& settlement) override { memory_->settle(settlement); }
  void abandon() override { memory_->abandon(); }
  void revert() override { memory_->revert(); }

  View<const float> to_gradient(View<const float> dense, const SparseVector* entries) override {
    const View<const float> followed = memory_->to_gradient(dense, entries);
    if (!followed.empty()) {
      dense = followed;
    } else if (entries != nullptr) {
      kernels::fill(0, transformed_.view());
      kernels::scatter_add(*entries, transformed_.view());
      dense = transformed_.view();
    }
    kernels::transform_tiles(dense, matrices_, bases_, TransformDirection::kInverse, restored_.view());
    return restored_.view();
  }

  double residual_norm() const override { return memory_->residual_norm(); }
  View<const float> residual() const override { return memory_->residual(); }
  void save(Archive& archive, const std::string& prefix) const override { memory_->save(archive, prefix + field_); }
  void load(const Archive& archive, const std::string& prefix) override { memory_->load(archive, prefix + field_); }
  void add(const Archive& archive, const std::string& prefix) override { memory_->add(archive, prefix + field_); }
  void load_shared(const Archive& archive, const std::string& prefix, int workers, int world_size) override {
    memory_->load_shared(archive, prefix + field_, workers, world_size);
  }

 private:
  std::unique_ptr<Memory> memory_;
  std::vector<kernels::TiledMatrix> matrices_;
  kernels::CosineBases bases_;
  Buffer<float> transformed_;  // the gradient, then the sum of entries: acc may lie here, but the exchange is over then
  Buffer<float> restored_;     // the sum in the gradient's basis
  std::string field_;
};

}  // namespace

std::unique_ptr<Memory> in_dct_basis(std::unique_ptr<Memory> memory, std::size_t numel, std::span<const Shape> tensors,
                                     std::size_t chunk, const Device& device) {
  return std::make_unique<DctBasis>(std::move(memory), numel, tiles_of(numel, tensors, chunk), chunk, device);
}

}  // namespace dragonn::compress

// SPDX-License-Identifier: MIT
#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class Flatten final : public Layer {
 public:
  std::string kind() const override { return "flatten"; }
  LayerTraits traits() const override { return {.is_view = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, 1);
    std::int64_t features = 1;
    for (std::int64_t extent : input.extents().subspan(1)) features *= extent;
    return {input[0], features};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext&) const override { return nullptr; }
};

}  // namespace

std::unique_ptr<Layer> flatten() {
  return std::make_unique<Flatten>();
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// Views of the same values under another shape.
#include <functional>
#include <string>
#include <utility>

#include "layers/layer.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

class Reshape final : public Layer {
 public:
  /// @param rank of the input; 0 takes any.
  Reshape(std::string kind, std::size_t rank, std::function<Shape(const Shape&)> reshape)
      : kind_(std::move(kind)), rank_(rank), reshape_(std::move(reshape)) {}

  std::string kind() const override { return kind_; }
  LayerTraits traits() const override { return {.is_view = true, .takes_bf16 = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    return reshape_(rank_ == 0 ? first_input(kind_, inputs, 1) : single_input(kind_, inputs, rank_));
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext&) const override { return nullptr; }

 private:
  std::string kind_;
  std::size_t rank_;
  std::function<Shape(const Shape&)> reshape_;
};

}  // namespace

std::unique_ptr<Layer> flatten() {
  return std::make_unique<Reshape>("flatten", 0, [](const Shape& input) -> Shape {
    std::int64_t features = 1;
    for (std::int64_t extent : input.extents().subspan(1)) features *= extent;
    return {input[0], features};
  });
}

std::unique_ptr<Layer> add_channel() {
  return std::make_unique<Reshape>("add channel", 3, [](const Shape& input) -> Shape {
    return {input[0], input[1], input[2], 1};
  });
}

std::unique_ptr<Layer> merge_channels() {
  return std::make_unique<Reshape>("merge channels", 4, [](const Shape& input) -> Shape {
    return {input[0], input[1], input[2] * input[3]};
  });
}

std::unique_ptr<Layer> merge_pixels() {
  return std::make_unique<Reshape>("merge pixels", 4, [](const Shape& input) -> Shape {
    return {input[0], input[1] * input[2], input[3]};
  });
}

std::unique_ptr<Layer> steps_to_pixels() {
  return std::make_unique<Reshape>("steps to pixels", 3, [](const Shape& input) -> Shape {
    return {input[0], input[1], 1, input[2]};
  });
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
#include "layers/shape_checks.h"

#include "core/error.h"

namespace dragonn::layers {

const Shape& first_input(std::string_view layer, std::span<const Shape> inputs, std::size_t count) {
  if (inputs.size() != count) throw ShapeError(fmt::format("{} takes {} inputs, not {}", layer, count, inputs.size()));
  return inputs[0];
}

const Shape& single_input(std::string_view layer, std::span<const Shape> inputs, std::size_t rank) {
  const Shape& input = first_input(layer, inputs, 1);
  if (input.rank() != rank)
    throw ShapeError(fmt::format("{} takes an input of {} axes ({}), not of shape {}", layer, rank,
                                 rank == 4 ? "batch, height, width, channels" : "batch, features", input.to_string()));
  return input;
}

}  // namespace dragonn::layers

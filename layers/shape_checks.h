// SPDX-License-Identifier: MIT
/// Checks of layers' input shapes.
#pragma once

#include <span>
#include <string_view>

#include "core/error.h"
#include "core/shape.h"

namespace dragonn::layers {

/// The first of `count` inputs, of any rank. @throws ShapeError naming the layer if there are more or fewer.
inline const Shape& first_input(std::string_view layer, std::span<const Shape> inputs, std::size_t count) {
  if (inputs.size() != count) throw ShapeError(fmt::format("{} takes {} inputs, not {}", layer, count, inputs.size()));
  return inputs[0];
}

/// The only input. @throws ShapeError likewise, or if it does not have `rank` axes.
inline const Shape& single_input(std::string_view layer, std::span<const Shape> inputs, std::size_t rank) {
  const Shape& input = first_input(layer, inputs, 1);
  if (input.rank() != rank)
    throw ShapeError(fmt::format("{} takes an input of {} axes ({}), not of shape {}", layer, rank,
                                 rank == 4 ? "batch, height, width, channels" : "batch, features", input.to_string()));
  return input;
}

}  // namespace dragonn::layers

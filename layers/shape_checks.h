// SPDX-License-Identifier: MIT
/// Checks of layers' input shapes.
#pragma once

#include <span>
#include <string_view>

#include "core/shape.h"

namespace dragonn::layers {

/// Returns the only input. @throws ShapeError naming the layer if there are more or fewer, or if it does not have
/// `rank` axes.
const Shape& single_input(std::string_view layer, std::span<const Shape> inputs, std::size_t rank);
/// Returns the first of `count` inputs, of any rank. @throws ShapeError naming the layer if there are more or fewer.
const Shape& first_input(std::string_view layer, std::span<const Shape> inputs, std::size_t count);

}  // namespace dragonn::layers

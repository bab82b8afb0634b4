// SPDX-License-Identifier: MIT
/// Embeddings: a row of a table for every token, and a learned vector for every time step.
#pragma once

#include <cstddef>

#include "core/view.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// Copies rows: output [tokens, width] = rows of table [rows, width]. @param tokens whole numbers in [0, rows), as
/// float32.
/// @throws DataError for a token that is none, naming its position; on a GPU the next wait throws it.
extern Operation<void(View<const float> tokens, View<const float> table, std::size_t width, TypedView<float> output)>
    embed;

/// Computes table_gradient [rows, width]: for every row the sum of the output gradients of its tokens, in their order;
/// zero for the others. The gradient is dense, but at most `tokens` of its rows differ from 0. @param adds adds to what
/// is there instead, which leaves the rows of other tokens alone.
extern Operation<void(View<const float> tokens, TypedView<const float> output_gradient, std::size_t width,
                      View<float> table_gradient, bool adds)>
    embed_backward;

/// Computes output [batch, steps, width] = input + the first `steps` rows of table [rows, width]. `output` may be
/// `input`. @throws ShapeError if the sizes do not fit.
extern Operation<void(TypedView<const float> input, View<const float> table, std::size_t steps, std::size_t width,
                      TypedView<float> output)>
    add_positions;

/// Computes table_gradient [rows, width]: the sum over the batch of the output gradients; zeros behind row `steps`.
extern Operation<void(TypedView<const float> output_gradient, std::size_t steps, std::size_t width,
                      View<float> table_gradient)>
    add_positions_backward;

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
/// Embedding: a row of a table for every token.
#pragma once

#include <cstddef>

#include "core/view.h"
#include "kernels/device_table.h"

namespace dragonn::kernels {

/// Copies rows: output [tokens, width] = rows of table [rows, width]. @param tokens whole numbers in [0, rows), as
/// float32.
/// @throws DataError for a token that is none, naming its position; on a GPU the next wait throws it. DeviceError if
/// there is no row for the device.
void embed(View<const float> tokens, View<const float> table, std::size_t width, View<float> output);

/// Computes table_gradient [rows, width]: for every row the sum of the output gradients of its tokens, in their order;
/// zero for the others. The gradient is dense, but at most `tokens` of its rows differ from 0.
void embed_backward(View<const float> tokens, View<const float> output_gradient, std::size_t width,
                    View<float> table_gradient);

using EmbedTable = DeviceTable<void (*)(View<const float>, View<const float>, std::size_t, View<float>)>;
EmbedTable& embed_table();
EmbedTable& embed_backward_table();

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
/// Operations on the steps of sequences: copies in another order, with zeros for padding; transposes; and lookahead, a
/// convolution over the following steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/view.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// The shape. Batch-major values are [batch, steps, width], of which `size` from `offset` on are copied; time-major
/// ones are [steps, batch, size].
struct SequenceRows {
  std::size_t batch = 1, steps = 1;
  std::size_t width = 1, offset = 0, size = 1;
};

/// Copies to time-major order. Steps behind a sample's length become zeros. @param lengths [batch]; empty: all steps
/// are valid. Either side may be of either type of element.
/// @throws ShapeError if sizes do not fit.
extern Operation<void(const SequenceRows& rows, TypedView<const float> batch_major,
                      std::span<const std::int32_t> lengths, TypedView<float> time_major)>
    to_time_major;
/// Copies to batch-major order likewise; `add` adds to the target instead.
extern Operation<void(const SequenceRows& rows, TypedView<const float> time_major,
                      std::span<const std::int32_t> lengths, bool add, TypedView<float> batch_major)>
    to_batch_major;

/// Computes output = input [batch, steps, size], with zeros behind the samples' lengths. `output` may be `input`.
extern Operation<void(const SequenceRows& rows, TypedView<const float> input, std::span<const std::int32_t> lengths,
                      TypedView<float> output)>
    mask_steps;

/// Transposes: output [batch, columns, rows] = input [batch, rows, columns]. The arrays must not overlap.
/// @throws ShapeError if the sizes do not fit.
extern Operation<void(TypedView<const float> input, std::size_t rows, std::size_t columns, TypedView<float> output)>
    swap_axes;

/// The shape of output[b, t, f] = sum over j in [0, context] with t + j < steps of weights[j, f] * input[b, t + j, f].
struct LookaheadSpec {
  std::size_t batch = 1, steps = 1, features = 1;
  std::size_t context = 0;
};

/// Computes the output. @param input [batch, steps, features].  @param weights [context + 1, features].
extern Operation<void(const LookaheadSpec& spec, TypedView<const float> input, View<const float> weights,
                      TypedView<float> output)>
    lookahead_forward;
/// Computes both gradients, which are overwritten; `input_gradient` may be empty.
extern Operation<void(const LookaheadSpec& spec, TypedView<const float> input, View<const float> weights,
                      TypedView<const float> output_gradient, TypedView<float> input_gradient,
                      View<float> weights_gradient)>
    lookahead_backward;

}  // namespace dragonn::kernels

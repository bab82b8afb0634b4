// SPDX-License-Identifier: MIT
/// Copies in another order: sequences between batch-major and time-major, with zeros for padding; and transposes.
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
/// @throws ShapeError if sizes do not fit; DeviceError if there is no row for the device.
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
/// @throws ShapeError if the sizes do not fit; DeviceError if there is no row for the device.
extern Operation<void(TypedView<const float> input, std::size_t rows, std::size_t columns, TypedView<float> output)>
    swap_axes;

}  // namespace dragonn::kernels

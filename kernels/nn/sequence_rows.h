// SPDX-License-Identifier: MIT
/// Sequence copies between batch-major order, which layers use between them, and time-major order, with zeros for
/// padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/view.h"
#include "kernels/device_table.h"

namespace dragonn::kernels {

/// The shape. Batch-major values are [batch, steps, width], of which `size` from `offset` on are copied; time-major
/// ones are [steps, batch, size].
struct SequenceRows {
  std::size_t batch = 1, steps = 1;
  std::size_t width = 1, offset = 0, size = 1;
};

/// Copies to time-major order. Steps behind a sample's length become zeros. @param lengths [batch]; empty: all steps
/// are valid.
/// @throws ShapeError if sizes do not fit; DeviceError if there is no row for the device.
void to_time_major(const SequenceRows& rows, View<const float> batch_major, std::span<const std::int32_t> lengths,
                   View<float> time_major);
/// Copies to batch-major order likewise; `add` adds to the target instead.
void to_batch_major(const SequenceRows& rows, View<const float> time_major, std::span<const std::int32_t> lengths,
                    bool add, View<float> batch_major);

/// Computes output = input [batch, steps, size], with zeros behind the samples' lengths. `output` may be `input`.
void mask_steps(const SequenceRows& rows, View<const float> input, std::span<const std::int32_t> lengths,
                View<float> output);

using ToTimeMajorTable =
    DeviceTable<void (*)(const SequenceRows&, View<const float>, std::span<const std::int32_t>, View<float>)>;
ToTimeMajorTable& to_time_major_table();
ToTimeMajorTable& mask_steps_table();
using ToBatchMajorTable =
    DeviceTable<void (*)(const SequenceRows&, View<const float>, std::span<const std::int32_t>, bool, View<float>)>;
ToBatchMajorTable& to_batch_major_table();

}  // namespace dragonn::kernels

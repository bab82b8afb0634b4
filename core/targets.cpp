// SPDX-License-Identifier: MIT
#include "core/targets.h"

namespace dragonn {

void check_offsets(const Targets& targets, std::size_t batch) {
  const auto offsets = targets.offsets.host();
  bool fits = offsets.size() == batch + 1 && offsets[0] == 0 &&
              static_cast<std::size_t>(offsets[batch]) == targets.labels.size();
  for (std::size_t i = 0; fits && i < batch; ++i) fits = offsets[i] <= offsets[i + 1];
  if (!fits)
    throw ShapeError(
        fmt::format("{} labels with {} offsets for {} samples: offsets must ascend from 0 to the number of "
                    "labels, one more than samples",
                    targets.labels.size(), offsets.size(), batch));
}

std::span<const std::int32_t> labels_of(const Targets& targets, std::size_t sample) {
  const auto begin = static_cast<std::size_t>(targets.offsets.host()[sample]);
  return targets.labels.host().subspan(begin, static_cast<std::size_t>(targets.offsets.host()[sample + 1]) - begin);
}

}  // namespace dragonn

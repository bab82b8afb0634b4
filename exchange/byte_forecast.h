// SPDX-License-Identifier: MIT
/// ByteForecast: the bytes that a run is expected to send.
#pragma once

#include <cstdint>

namespace dragonn::exchange {

/// Bytes that a worker sends in a step: the payload, mean over workers and over ten steps.
struct ByteRange {
  double low = 0;
  double expected = 0;
  double high = 0;

  bool is_exact() const { return low == high; }
};

/// The bytes that a run sends.
struct ByteForecast {
  ByteRange settled = {};
  ByteRange first = {};  ///< of the first steps; unused if there are none
  std::uint64_t first_steps = 0;
};

}  // namespace dragonn::exchange

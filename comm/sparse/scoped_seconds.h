// SPDX-License-Identifier: MIT
/// ScopedSeconds: adds the time of a scope of decoding to a number.
#pragma once

#include "core/clock.h"
#include "core/timeline.h"

namespace dragonn::comm {

/// Measures ReductionStatistics::decode_seconds, by the communicator's clock.
class ScopedSeconds {
 public:
  ScopedSeconds(const Clock& clock, double& seconds) : clock_(clock), seconds_(seconds), start_(clock.now()) {}
  ~ScopedSeconds() { seconds_ += clock_.now() - start_; }
  ScopedSeconds(const ScopedSeconds&) = delete;
  ScopedSeconds& operator=(const ScopedSeconds&) = delete;

 private:
  const Clock& clock_;
  double& seconds_;
  double start_;
  Span span_{Track::kExchange, "decode"};
};

}  // namespace dragonn::comm

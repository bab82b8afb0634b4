// SPDX-License-Identifier: MIT
/// ScopedSeconds: adds the wall time of a scope to a number.
#pragma once

#include <chrono>

namespace dragonn::comm {

/// For SparseReduction::decode_seconds.
class ScopedSeconds {
 public:
  explicit ScopedSeconds(double& seconds) : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~ScopedSeconds() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  ScopedSeconds(const ScopedSeconds&) = delete;
  ScopedSeconds& operator=(const ScopedSeconds&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace dragonn::comm

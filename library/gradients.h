// SPDX-License-Identifier: MIT
/// The gradients of a caller: one tensor's numbers, and a step's tensors as they come in parts.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/parameter.h"
#include "library/dragonn.h"

namespace dragonn::library {

/// The entries of a tensor that are not zero.
struct TensorEntries {
  std::span<const std::uint32_t> indices;  ///< from `begin` on, ascending
  std::span<const float> values;           ///< as many
  std::size_t begin = 0;
  std::size_t size = 0;  ///< of the tensor
};

/// A tensor's numbers in the caller's memory.
struct Numbers {
  void* data = nullptr;
  dragonn_dtype dtype = DRAGONN_FLOAT32;

  /// Converts all of them to float32. @param to as many.
  void read(std::span<float> to) const;
  /// Returns whether all of them are finite.
  bool are_finite(std::size_t size) const;
  /// Converts to their type. 16 bits are rounded to nearest even; what is too large becomes the largest number.
  void write(std::span<const float> from, float scale = 1) const;
  /// The same, and zeros elsewhere.
  void write(const TensorEntries& from, float scale) const;
};

/// Hands the parts of a step's gradient from a caller's thread to the thread of the rank, which may be at work already.
class StepParts {
 public:
  /// Created when the first part is there. @param clock outlives this.
  StepParts(std::size_t tensors, const Clock& clock)
      : numbers_(tensors), is_given_(tensors), missing_(tensors), clock_(clock), begin_(clock.now()) {}

  /// Gives gradients by their tensors. Called by the caller's thread, as the next four.
  void give(std::span<const std::pair<ParameterId, Numbers>> gradients);
  bool is_given(ParameterId tensor) const { return is_given_[tensor]; }
  bool is_complete() const { return missing_ == 0; }
  /// Ends the waits for what is missing: the step is given up.
  void cancel();
  /// Ends them with an error of this rank.
  void fail(const std::string& reason);

  /// Waits until these tensors are given; called by the rank's thread. Returns false if the step was cancelled before.
  /// @throws Error with the reason of fail().
  bool wait_for(std::span<const ParameterId> tensors);
  /// Returns a tensor that was given.
  const Numbers& operator[](ParameterId tensor) const { return numbers_[tensor]; }
  bool is_cancelled() const;
  /// Return when the first part was there, and the last one if all are, in seconds by the clock.
  double begin() const { return begin_; }
  double end() const { return end_; }

 private:
  std::vector<Numbers> numbers_;  // by tensor, as the next
  std::vector<bool> is_given_;    // the caller's thread writes it, under the mutex
  std::size_t missing_;
  const Clock& clock_;
  double begin_;
  double end_ = 0;  // as is_given_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_cancelled_ = false;
  std::optional<std::string> failure_;
};

}  // namespace dragonn::library

// SPDX-License-Identifier: MIT
/// Activity: the current label and operation of a rank, for errors of this rank and of those that wait for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>

#include "core/timeline.h"

namespace dragonn::comm {

/// A label ("step 12, bucket 3"), the outermost operation in progress, and the innermost one. One thread writes, any
/// thread reads. Writing allocates nothing, so a training step may do so.
class Activity {
 public:
  static constexpr std::size_t kLongestLabel = 120;

  /// Sets the label. Labels longer than kLongestLabel are cut.
  void set_label(std::string_view label) {
    const std::scoped_lock lock(mutex_);
    length_ = std::min(label.size(), label_.size());
    std::copy_n(label.begin(), length_, label_.begin());
  }
  std::string label() const {
    const std::scoped_lock lock(mutex_);
    return std::string(label_.data(), length_);
  }

  /// Begins an operation. Operations nest; leave() ends the innermost one.
  void enter(const char* operation) {
    const std::scoped_lock lock(mutex_);
    if (depth_ == 0) {
      outer_ = operation;
      inner_ = nullptr;
    } else if (depth_ == 1) {
      inner_ = operation;
    }
    ++depth_;
  }
  /// Ends an operation. @param failed the operation ended with an exception: describe() names it until another begins.
  void leave(bool failed) {
    const std::scoped_lock lock(mutex_);
    --depth_;
    if (failed) return;
    if (depth_ == 0) outer_ = nullptr;
    if (depth_ <= 1) inner_ = nullptr;
  }

  /// Describes what is known: "'step 12, bucket 3', in oktopk (allgather)"; "" if nothing is.
  std::string describe() const {
    const std::scoped_lock lock(mutex_);
    std::string text;
    if (length_ > 0) text.append("'").append(label_.data(), length_).append("'");
    if (outer_ != nullptr) text.append(text.empty() ? "in " : ", in ").append(outer_);
    if (inner_ != nullptr) text.append(" (").append(inner_).append(")");
    return text;
  }

 private:
  mutable std::mutex mutex_;
  std::array<char, kLongestLabel> label_{};
  std::size_t length_ = 0;
  const char* outer_ = nullptr;
  const char* inner_ = nullptr;
  int depth_ = 0;
};

/// Names the operation of a scope, for errors and for the thread's timeline. `operation` must outlive the scope, the
/// error that may end it, and the timeline.
class ScopedOperation {
 public:
  ScopedOperation(Activity& activity, const char* operation)
      : activity_(activity), exceptions_(std::uncaught_exceptions()), span_(Track::kExchange, operation) {
    activity_.enter(operation);
  }
  ~ScopedOperation() { activity_.leave(std::uncaught_exceptions() > exceptions_); }
  ScopedOperation(const ScopedOperation&) = delete;
  ScopedOperation& operator=(const ScopedOperation&) = delete;

 private:
  Activity& activity_;
  int exceptions_;
  Span span_;
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// Activity: what a rank is doing, for error messages of this rank and of those that wait for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace dragonn::comm {

/// A label ("step 12, bucket 3") and the collective in progress. One thread writes, any thread reads; nothing is
/// allocated on writing, so a training step may do so.
class Activity {
 public:
  static constexpr std::size_t kLongestLabel = 120;

  /// Longer labels are cut.
  void set_label(std::string_view label) {
    const std::scoped_lock lock(mutex_);
    length_ = std::min(label.size(), label_.size());
    std::copy_n(label.begin(), length_, label_.begin());
  }
  std::string label() const {
    const std::scoped_lock lock(mutex_);
    return std::string(label_.data(), length_);
  }

  /// The outermost collective wins: a broadcast inside an allreduce is the allreduce's. Balanced by leave().
  void enter(const char* operation) {
    const std::scoped_lock lock(mutex_);
    if (depth_++ == 0) operation_ = operation;
  }
  void leave() {
    const std::scoped_lock lock(mutex_);
    if (--depth_ == 0) operation_ = nullptr;
  }

  /// "'step 12, bucket 3', in allgather"; parts that are not known are left out, "" if none is.
  std::string describe() const {
    const std::scoped_lock lock(mutex_);
    std::string text;
    if (length_ > 0) text.append("'").append(label_.data(), length_).append("'");
    if (operation_ != nullptr) text.append(text.empty() ? "in " : ", in ").append(operation_);
    return text;
  }

 private:
  mutable std::mutex mutex_;
  std::array<char, kLongestLabel> label_{};
  std::size_t length_ = 0;
  const char* operation_ = nullptr;
  int depth_ = 0;
};

/// Names the collective of a scope.
class ScopedOperation {
 public:
  ScopedOperation(Activity& activity, const char* operation) : activity_(activity) { activity_.enter(operation); }
  ~ScopedOperation() { activity_.leave(); }
  ScopedOperation(const ScopedOperation&) = delete;
  ScopedOperation& operator=(const ScopedOperation&) = delete;

 private:
  Activity& activity_;
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// Fiber: a function with a stack of its own, which stops and goes on.
#pragma once

#include <cstddef>
#include <memory>

namespace dragonn::emulation {

/// Only one fiber runs at a time, in all threads of the process: the thread that resumes one holds the device
/// (stream.h).
class Fiber {
 public:
  /// @param main starts with the first resume(), and never returns.
  explicit Fiber(void (*main)());
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Goes on where the fiber stopped, until it stops again. Not from within a fiber.
  void resume();
  /// Stops the running fiber: its resume() returns.
  static void suspend();
  static Fiber& current();

 private:
  static constexpr std::size_t kStackBytes = std::size_t{256} << 10;

  static void begin();

  void (*main_)();
  std::unique_ptr<std::byte[]> stack_;
  void* top_ = nullptr;  ///< top of its stack, where it stopped
};

}  // namespace dragonn::emulation

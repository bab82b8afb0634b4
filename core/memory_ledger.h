// SPDX-License-Identifier: MIT
/// MemoryLedger: who holds how much of a device's memory, for the moment when it runs out.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace dragonn {

/// Says what the calling thread allocates memory for while this lives ("activations"); the innermost one counts.
/// A scope and not an argument, since buffers grow deep inside of what knows their purpose.
class MemoryLabel {
 public:
  /// @param name a text that lasts.
  explicit MemoryLabel(const char* name);
  ~MemoryLabel();
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;

  /// "other things" outside of any scope.
  static const char* current();

 private:
  const char* previous_;
};

/// What is allocated, by label. Any thread may call anything here.
class MemoryLedger {
 public:
  /// Under the calling thread's label.
  void add(const void* memory, std::size_t bytes);
  /// Memory that is not in the ledger is none of its business.
  void remove(const void* memory) noexcept;
  /// "activations 81920, parameters 4096": bytes by label, largest first; "nothing" if all is released.
  std::string describe() const;

 private:
  struct Entry {
    const char* label;
    std::size_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<const void*, Entry> entries_;
};

}  // namespace dragonn

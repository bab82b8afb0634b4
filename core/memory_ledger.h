// SPDX-License-Identifier: MIT
/// MemoryLedger: records the purpose of a device's allocations, for the error when memory runs out.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace dragonn {

/// Labels what the calling thread allocates while this object lives ("activations"); the innermost label counts.
/// It is a scope rather than an argument because buffers grow deep below the code that knows their purpose.
class MemoryLabel {
 public:
  /// @param name a string that outlives all uses of the ledger.
  explicit MemoryLabel(const char* name);
  ~MemoryLabel();
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;

  /// Returns the innermost label of the calling thread; "other things" outside of any.
  static const char* current();

 private:
  const char* previous_;
};

/// The live allocations of a device, by label. Thread safe.
class MemoryLedger {
 public:
  /// Records an allocation under the calling thread's label.
  void add(const void* memory, std::size_t bytes);
  /// Removes an allocation. Ignores memory that is not in the ledger.
  void remove(const void* memory) noexcept;
  /// Returns the bytes by label, largest first: "activations 81920, parameters 4096"; "nothing" if all is released.
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

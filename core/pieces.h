// SPDX-License-Identifier: MIT
/// Pieces: a long message that lies in several places of memory, and is not put together before it is sent.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dragonn {

/// A list of pieces, in their order.
class Pieces {
 public:
  /// Appends bytes that outlive this object, unchanged.
  void refer_to(std::span<const std::byte> bytes);
  /// Appends bytes of its own.
  void add(std::string text);
  /// Appends the pieces of another message.
  void append(const Pieces& other);
  std::size_t size() const { return size_; }
  /// Copies the bytes from `begin` on. @param target fits into the rest.
  void copy_to(std::size_t begin, std::span<std::byte> target) const;
  /// Returns the whole. O(size) memory.
  std::vector<std::byte> bytes() const;

 private:
  std::vector<std::shared_ptr<const std::string>> own_;
  std::vector<std::span<const std::byte>> pieces_;
  std::size_t size_ = 0;
};

}  // namespace dragonn

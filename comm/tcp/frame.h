// SPDX-License-Identifier: MIT
/// Frames: what a connection carries, each a header and the bytes behind it. Operations: the pending sends or receives
/// of one end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace dragonn::comm {

enum class FrameKind : std::uint32_t {
  kMessage,
  // The kinds below carry a text, which may be empty.
  kEnd,      ///< this rank is done
  kFailure,  ///< this rank failed, with the reason: ranks that wait for it wait in vain
  kAbort,    ///< the group failed, with the reason
  kWhere,    ///< asks which rank the receiver of this frame waits for
  kHere,     ///< answers kWhere
};

struct FrameHeader {
  FrameKind kind = FrameKind::kMessage;
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;  ///< length of what follows the header
};
static_assert(std::has_unique_object_representations_v<FrameHeader>, "no padding that would be sent");

/// The longest message, in bytes: more than any list or gradient with indices of 32 bits needs. A header that claims
/// more is no header of this program.
inline constexpr std::uint64_t kLongestMessage = std::uint64_t{1} << 36;
/// The longest text of a frame, in bytes.
inline constexpr std::size_t kLongestFrameText = 4096;

/// Pending sends or receives, by number. Numbers are reused after release(), so that nothing is allocated once the
/// largest number of pending operations is reached. T has a member `in_use`.
template <class T>
class Operations {
 public:
  std::size_t add(T operation) {
    auto place = std::ranges::find(all_, false, &T::in_use);
    if (place == all_.end()) place = all_.insert(place, T{});
    *place = std::move(operation);
    place->in_use = true;
    return static_cast<std::size_t>(place - all_.begin());
  }
  bool knows(std::size_t number) const { return number < all_.size() && all_[number].in_use; }
  void release(std::size_t number) { all_[number].in_use = false; }
  T& operator[](std::size_t number) { return all_[number]; }
  const T& operator[](std::size_t number) const { return all_[number]; }
  /// Returns how many numbers have been given out.
  std::size_t size() const { return all_.size(); }

 private:
  std::vector<T> all_;
};

}  // namespace dragonn::comm

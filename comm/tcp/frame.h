// SPDX-License-Identifier: MIT
/// What travels on a connection: frames of a header and the bytes behind it. And what both of its ends keep of
/// messages.
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
  // With a text, or nothing.
  kEnd,      ///< this rank is done
  kFailure,  ///< it failed, with the reason: who waits for it waits in vain
  kAbort,    ///< the group failed, with the reason
  kWhere,    ///< where are you?
  kHere,     ///< the answer
};

struct FrameHeader {
  FrameKind kind = FrameKind::kMessage;
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;  ///< behind the header
};
static_assert(std::has_unique_object_representations_v<FrameHeader>, "no padding that would be sent");

/// The longest text of a frame, in bytes.
inline constexpr std::size_t kLongestFrameText = 4096;

/// Messages on their way, by number. The numbers of those that are done with are used again, so that nothing allocates
/// once as many have been on their way as ever are. T has a member `in_use`.
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
  /// Of numbers so far.
  std::size_t size() const { return all_.size(); }

 private:
  std::vector<T> all_;
};

}  // namespace dragonn::comm

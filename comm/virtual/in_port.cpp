// SPDX-License-Identifier: MIT
#include "comm/virtual/in_port.h"

#include <algorithm>

namespace dragonn::comm {

double InPort::reserve(double ready, double seconds) {
  const double begin = std::max(ready, forgotten_);
  std::size_t first = busy_.size();  // the first piece that ends behind `begin`, or there
  while (first > 0 && busy_[first - 1].end >= begin) --first;
  double time = begin;
  double left = seconds;
  std::size_t last = first;  // behind the pieces that the message has passed
  for (; last < busy_.size(); ++last) {
    const double gap = busy_[last].begin - time;
    if (gap > 0 && left <= gap) break;
    left -= std::max(gap, 0.0);
    time = std::max(time, busy_[last].end);
  }
  const double done = time + left;
  // An empty message takes no time, but waits for its turn.
  if (seconds > 0) insert(first, last, {first < last ? std::min(begin, busy_[first].begin) : begin, done});
  return done;
}

void InPort::insert(std::size_t first, std::size_t last, Piece piece) {
  const auto at = [&](std::size_t i) { return busy_.begin() + static_cast<std::ptrdiff_t>(i); };
  if (first < last) {  // from the first piece to the end of the message no gap is left
    busy_[first] = piece;
    busy_.erase(at(first + 1), at(last));
    return;
  }
  if (busy_.size() == kPieces) {
    forgotten_ = busy_.front().end;
    busy_.erase(busy_.begin());
    if (first == 0) return;  // the message itself lies before what is remembered
    --first;
  }
  busy_.insert(at(first), piece);
}

}  // namespace dragonn::comm

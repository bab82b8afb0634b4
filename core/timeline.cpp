// SPDX-License-Identifier: MIT
#include "core/timeline.h"

#include <cmath>
#include <cstring>

namespace dragonn {
namespace {

std::int64_t nanoseconds(const Clock& clock) {
  constexpr double kPerSecond = 1e9;
  return std::llround(clock.now() * kPerSecond);
}

}  // namespace

std::size_t Timeline::add(Track track, const Entry& entry) {
  const std::size_t names =
      std::strlen(entry.name) + (entry.detail.tensors == nullptr ? 0 : std::strlen(entry.detail.tensors));
  const std::size_t bytes = kTextBytes + names + (entry.detail.message < 0 ? 0 : kArrowBytes);
  if (full_ || bytes_.fetch_add(bytes) + bytes > max_bytes_) {
    full_ = true;
    return kNoEntry;
  }
  std::vector<Entry>& spans = tracks_[static_cast<std::size_t>(track)];
  spans.push_back(entry);
  return spans.size() - 1;
}

void Span::begin(const char* name, const SpanDetail& detail) {
  const Recording& recording = this_recording();
  const std::int64_t now = nanoseconds(*recording.clock);
  index_ = recording.timeline->add(track_, {name, now, now, detail});
  if (index_ != Timeline::kNoEntry) timeline_ = recording.timeline;
}

void Span::end() {
  timeline_->entry(track_, index_).end = nanoseconds(*this_recording().clock);
}

}  // namespace dragonn

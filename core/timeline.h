// SPDX-License-Identifier: MIT
/// Timeline: the named parts of a rank's training steps, with their times, for a viewer of traces.
///
/// Code names its parts by a Span where it is. A span costs one comparison unless its thread records.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/clock.h"

namespace dragonn {

/// A line of a timeline. The spans of a track nest: one thread at a time works on it.
enum class Track : std::uint8_t { kSteps, kComputing, kExchange };
inline constexpr std::array kTrackNames{"steps", "computing", "exchange"};

/// Says more of a span than its name. Negative numbers and null say nothing.
struct SpanDetail {
  std::int64_t step = -1;         ///< from 1
  std::int64_t bytes = -1;        ///< of a message
  int peer = -1;                  ///< rank at the other end of a message
  int tag = -1;                   ///< of a message
  std::int64_t message = -1;      ///< number of a message among those of its sender, receiver and tag, from 0
  int first_bucket = -1;          ///< index of a bucket, or of the first of a group
  int last_bucket = -1;           ///< index of the last one
  const char* tensors = nullptr;  ///< name of the bucket
};

/// The spans of one rank. Every track is written by one thread at a time; all may read when none records.
class Timeline {
 public:
  /// A span's names must outlive the timeline.
  struct Entry {
    const char* name;
    std::int64_t begin;  ///< nanoseconds by the recording thread's clock
    std::int64_t end;
    SpanDetail detail;
  };

  /// Holds spans whose texts in a file take `max_bytes` at most; what comes after that is not recorded.
  explicit Timeline(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Returns a track's spans in the order of their beginnings: outer ones before those inside.
  const std::vector<Entry>& spans(Track track) const { return tracks_[static_cast<std::size_t>(track)]; }
  /// Returns whether a span found no room.
  bool is_full() const { return full_; }
  /// The most bytes that a span's text takes, besides its names; and what a message's arrow adds.
  static constexpr std::size_t kTextBytes = 192, kArrowBytes = 128;

 private:
  friend class Span;
  static constexpr std::size_t kNoEntry = static_cast<std::size_t>(-1);
  /// Returns the entry's index; kNoEntry if there is no room.
  std::size_t add(Track track, const Entry& entry);
  Entry& entry(Track track, std::size_t index) { return tracks_[static_cast<std::size_t>(track)][index]; }

  std::size_t max_bytes_;
  std::atomic<std::size_t> bytes_ = 0;
  std::atomic<bool> full_ = false;
  std::array<std::vector<Entry>, kTrackNames.size()> tracks_;
};

/// The destination of a thread's spans. The timeline is the thread's, and no parameter: layers and messages know no
/// run.
struct Recording {
  Timeline* timeline = nullptr;  ///< null: nowhere
  const Clock* clock = nullptr;
};
/// Returns the destination of the calling thread's spans.
inline Recording& this_recording() {
  static constinit thread_local Recording recording;
  return recording;
}

/// Lets the calling thread record while this object lives.
class ScopedRecording {
 public:
  /// @param timeline may be null, for not recording; it outlives this object, and so does the clock.
  ScopedRecording(Timeline* timeline, const Clock& clock) : previous_(this_recording()) {
    this_recording() = {timeline, &clock};
  }
  ~ScopedRecording() { this_recording() = previous_; }
  ScopedRecording(const ScopedRecording&) = delete;
  ScopedRecording& operator=(const ScopedRecording&) = delete;

 private:
  Recording previous_;
};

/// A named part of the calling thread's work: the life of this object.
class Span {
 public:
  /// @param name outlives the timeline.
  Span(Track track, const char* name, const SpanDetail& detail = {}) : track_(track) {
    if (this_recording().timeline != nullptr) [[unlikely]]
      begin(name, detail);
  }
  ~Span() {
    if (timeline_ != nullptr) [[unlikely]]
      end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  /// Sets the bytes of a message whose size was not known before.
  void set_bytes(std::size_t bytes) {
    if (timeline_ != nullptr) [[unlikely]]
      timeline_->entry(track_, index_).detail.bytes = static_cast<std::int64_t>(bytes);
  }

 private:
  void begin(const char* name, const SpanDetail& detail);
  void end();

  Timeline* timeline_ = nullptr;  // null: not recorded
  std::size_t index_ = 0;
  Track track_;
};

}  // namespace dragonn

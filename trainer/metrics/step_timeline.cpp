// SPDX-License-Identifier: MIT
#include "trainer/metrics/step_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "comm/agreement.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/program.h"

namespace dragonn::trainer {
namespace {

using comm::Communicator;
using Json = nlohmann::ordered_json;

constexpr double kBytesPerMegabyte = 1e6;
/// The part of the file that is kept for its beginning and end, and for the names of a rank's tracks.
constexpr std::size_t kFrameBytes = 512, kRankBytes = 512;
/// The number of round trips of which the shortest tells how far two clocks are apart.
constexpr int kProbes = 10;
constexpr int kTag = 0;
constexpr std::int64_t kPerMicrosecond = 1000;  // nanoseconds
/// The text between two events.
constexpr std::string_view kBetween = ",\n";

std::int64_t nanoseconds(const Clock& clock) {
  return std::llround(clock.now() * 1e9);
}

/// Checks a time, or a difference of times, that another rank told: later sums must not overflow.
std::int64_t checked_time(const Communicator& communicator, int peer, std::int64_t nanoseconds) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max() / 8;  // 36 years
  if (nanoseconds > -kMax && nanoseconds < kMax) return nanoseconds;
  throw communicator.error("receiving from", peer,
                           fmt::format("a time of {} ns, and there are at most {}", nanoseconds, kMax));
}

template <class T>
View<std::byte> bytes_of(T& value) {
  return Communicator::as_writable_bytes(std::span<T>(&value, 1));
}

/// Returns a JSON object of what a span says besides its name; empty if it says nothing.
std::string arguments_of(const SpanDetail& detail) {
  Json arguments = Json::object();
  if (detail.step >= 0) arguments["step"] = detail.step;
  if (detail.first_bucket >= 0 && detail.first_bucket == detail.last_bucket) arguments["bucket"] = detail.first_bucket;
  if (detail.first_bucket < detail.last_bucket) {
    arguments["buckets"] = fmt::format("{} to {}", detail.first_bucket, detail.last_bucket);
  }
  if (detail.tensors != nullptr) arguments["tensors"] = detail.tensors;
  if (detail.peer >= 0) arguments["peer"] = detail.peer;
  if (detail.bytes >= 0) arguments["bytes"] = detail.bytes;
  return arguments.empty() ? "" : arguments.dump();
}

/// Returns a time as the format has it: in microseconds, here with all digits of the nanoseconds.
std::string microseconds(std::int64_t nanoseconds) {
  const std::int64_t magnitude = std::abs(nanoseconds);
  return fmt::format("{}{}.{:03}", nanoseconds < 0 ? "-" : "", magnitude / kPerMicrosecond,
                     magnitude % kPerMicrosecond);
}

/// Adds the events that name a rank's process and tracks.
void add_names(std::string& text, int rank) {
  const auto add = [&](const char* kind, std::size_t track, const Json& arguments) {
    text += fmt::format("{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{}}}{}", kind, rank, track,
                        arguments.dump(), kBetween);
  };
  add("process_name", 0, {{"name", fmt::format("rank {}", rank)}});
  add("process_sort_index", 0, {{"sort_index", rank}});
  for (std::size_t track = 0; track < kTrackNames.size(); ++track) {
    add("thread_name", track, {{"name", kTrackNames[track]}});
    add("thread_sort_index", track, {{"sort_index", track}});
  }
}

void add_span(std::string& text, int rank, std::size_t track, const Timeline::Entry& span, std::int64_t offset) {
  const std::string arguments = arguments_of(span.detail);
  text += fmt::format("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{}{}{}}}{}", rank, track,
                      microseconds(span.begin + offset), microseconds(span.end - span.begin), Json(span.name).dump(),
                      arguments.empty() ? "" : ",\"args\":", arguments, kBetween);
}

/// Adds an end of a message's arrow: at the beginning of its send, or at the end of its receive. Both ranks make the
/// same id, which viewers read as a double: it has 52 bits.
void add_arrow(std::string& text, int rank, std::size_t track, const Timeline::Entry& span, std::int64_t offset) {
  constexpr int kDroppedBits = 12;
  const bool is_sent = std::string_view(span.name) == "send";
  const std::int64_t peer = span.detail.peer, self = rank;
  const std::array<std::int64_t, 4> message{is_sent ? self : peer, is_sent ? peer : self, span.detail.tag,
                                            span.detail.message};
  // A viewer looks for the span at the arrow's time, so an end is a nanosecond before the span's.
  const std::int64_t time = is_sent ? span.begin : std::max(span.begin, span.end - 1);
  text += fmt::format(
      "{{\"ph\":\"{}\",\"id\":{},\"cat\":\"message\",\"name\":\"message\",\"pid\":{},\"tid\":{},\"ts\":{}}}{}",
      is_sent ? "s" : "f\",\"bp\":\"e", hash_bytes(std::as_bytes(std::span(message))) >> kDroppedBits, rank, track,
      microseconds(time + offset), kBetween);
}

}  // namespace

StepTimeline::StepTimeline(const LoggingConfig& config, std::uint64_t steps_done, Communicator& communicator,
                           std::filesystem::path file)
    : communicator_(communicator),
      file_(std::move(file)),
      first_(std::max(static_cast<std::uint64_t>(config.trace_first), steps_done + 1)),
      steps_(static_cast<std::uint64_t>(config.trace)),
      megabytes_(config.trace_mb),
      timeline_(static_cast<std::size_t>(
          std::max(0.0, (config.trace_mb * kBytesPerMegabyte - kFrameBytes) / communicator.size() - kRankBytes))) {}

ScopedRecording StepTimeline::record(std::uint64_t step) {
  const bool is_recorded = step >= first_ && step - first_ < steps_ && stopped_in_ == 0;
  return ScopedRecording(is_recorded ? &timeline_ : nullptr, communicator_.clock());
}

void StepTimeline::end_step(std::uint64_t step, bool is_last_of_run) {
  if (timeline_.is_full() && stopped_in_ == 0) stopped_in_ = step;
  if (written_ || (!ends_in(step) && !is_last_of_run)) return;
  written_ = true;
  if (step >= first_) return write(step);
  log::info(communicator_.rank(), "no timeline: its first step is {}, and the run ends after step {}", first_, step);
}

void StepTimeline::write(std::uint64_t last_step) {
  const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kMetrics);
  const std::int64_t offset = clock_offset();
  const std::uint64_t partial = first_partial_step(last_step);
  std::string text = own_text(offset, begin_of(partial));
  Summary mine{.stopped_in = stopped_in_};
  for (std::size_t track = 0; track < kTrackNames.size(); ++track)
    mine.spans += timeline_.spans(static_cast<Track>(track)).size();
  std::vector<Summary> summaries(static_cast<std::size_t>(communicator_.size()));
  communicator_.allgather_values(std::span<const Summary>(&mine, 1), std::span(summaries));
  // No honest part is larger than the whole file, or than what an empty one has.
  const auto max = static_cast<std::size_t>(std::max(megabytes_, 1.0) * kBytesPerMegabyte);
  if (communicator_.rank() != 0) communicator_.send_text(0, kTag, text);
  for (int peer = 1; communicator_.rank() == 0 && peer < communicator_.size(); ++peer)
    text += communicator_.recv_text(peer, kTag, max);
  comm::rank_zero_or_none(communicator_, [&] {
    Json description{{"program", fmt::format("dragonn {}", version())},
                     {"clock", communicator_.clock().is_virtual() ? "virtual" : "wall"},
                     {"clock_error_us", static_cast<double>(clock_error_) / kPerMicrosecond},
                     {"first_step", first_},
                     {"last_step", last_step}};
    if (partial <= last_step) description["stopped_in_step"] = partial;
    text.resize(text.size() - kBetween.size());
    write_file_atomically(file_,
                          fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n{}\n]}}\n",
                                      description.dump(), text));
    tell(last_step, summaries);
  });
}

std::int64_t StepTimeline::clock_offset() {
  // Virtual clocks, and the threads of one process, have one time already.
  if (communicator_.clock().is_virtual() || communicator_.backend() == "local") return 0;
  if (communicator_.rank() != 0) return let_measure();
  for (int peer = 1; peer < communicator_.size(); ++peer) {
    std::int64_t offset = measure_offset(peer);
    communicator_.send(peer, kTag, bytes_of(offset));
  }
  return 0;
}

/// Returns what `peer` adds to its times, by the round trip that leaves the least doubt: the peer read its clock within
/// it.
std::int64_t StepTimeline::measure_offset(int peer) {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max(), offset = 0;
  for (int probe = 0; probe < kProbes; ++probe) {
    std::int64_t there = 0;
    const std::int64_t sent = nanoseconds(communicator_.clock());
    communicator_.send(peer, kTag, bytes_of(there));
    communicator_.recv_exactly(peer, kTag, bytes_of(there));
    const std::int64_t back = nanoseconds(communicator_.clock());
    if (back - sent >= shortest) continue;
    shortest = back - sent;
    offset = sent + shortest / 2 - checked_time(communicator_, peer, there);
  }
  clock_error_ = std::max(clock_error_, (shortest + 1) / 2);
  return offset;
}

/// Answers measure_offset() of rank 0, and returns its result.
std::int64_t StepTimeline::let_measure() {
  std::int64_t value = 0;
  for (int probe = 0; probe < kProbes; ++probe) {
    communicator_.recv_exactly(0, kTag, bytes_of(value));
    value = nanoseconds(communicator_.clock());
    communicator_.send(0, kTag, bytes_of(value));
  }
  communicator_.recv_exactly(0, kTag, bytes_of(value));
  return checked_time(communicator_, 0, value);
}

std::uint64_t StepTimeline::first_partial_step(std::uint64_t last_step) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t counted_down = kMax - (stopped_in_ > 0 ? stopped_in_ : last_step + 1);
  communicator_.allreduce_max(std::span(&counted_down, 1));
  return kMax - counted_down;
}

std::int64_t StepTimeline::begin_of(std::uint64_t step) const {
  const auto& steps = timeline_.spans(Track::kSteps);
  const auto found = std::ranges::find_if(
      steps, [&](const Timeline::Entry& span) { return span.detail.step == static_cast<std::int64_t>(step); });
  return found == steps.end() ? std::numeric_limits<std::int64_t>::max() : found->begin;
}

std::string StepTimeline::own_text(std::int64_t offset, std::int64_t arrows_end) const {
  std::string text;
  add_names(text, communicator_.rank());
  for (std::size_t track = 0; track < kTrackNames.size(); ++track) {
    for (const Timeline::Entry& span : timeline_.spans(static_cast<Track>(track))) {
      add_span(text, communicator_.rank(), track, span, offset);
      if (span.detail.message >= 0 && span.begin < arrows_end) {
        add_arrow(text, communicator_.rank(), track, span, offset);
      }
    }
  }
  return text;
}

void StepTimeline::tell(std::uint64_t last_step, const std::vector<Summary>& summaries) const {
  std::uint64_t spans = 0;
  for (std::size_t rank = 0; rank < summaries.size(); ++rank) {
    spans += summaries[rank].spans;
    if (summaries[rank].stopped_in == 0) continue;
    log::warning(0, "the timeline of rank {} stops in step {}: logging.trace_mb = {} is full", rank,
                 summaries[rank].stopped_in, megabytes_);
  }
  log::info(0, "wrote the timeline of steps {} to {} to {}: {} spans of {} ranks", first_, last_step, file_.string(),
            spans, summaries.size());
}

}  // namespace dragonn::trainer

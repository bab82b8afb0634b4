// SPDX-License-Identifier: MIT
/// EventFile: a file that TensorBoard reads, and a histogram for it. Records of TFRecord's frame, each with an Event
/// message of TensorFlow's event.proto, encoded by hand: a run needs seven fields of six messages, which have not
/// changed since 2016.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dragonn::trainer {

/// Returns the CRC-32C (Castagnoli) of the bytes. O(n), a bit at a time: records are small.
std::uint32_t crc32c(std::string_view bytes);

/// Returns a record as the file holds it: uint64 length and the masked CRC-32C of these 8 bytes, the bytes and their
/// masked CRC-32C, little-endian.
std::string framed(std::string_view bytes);

/// A number and its name; TensorBoard groups names by the part before the first slash.
struct Scalar {
  std::string tag;
  double value = 0;
};

/// A bar of a histogram: `count` values in [left, right).
struct HistogramBar {
  double left = 0, right = 0, count = 0;
};

/// Counts values by the power of two below their magnitude: the exponent of a float32.
class MagnitudeCounts {
 public:
  /// Adds float32 values in host memory. O(n); local.
  void add(std::span<const float> values);
  /// The counts by biased exponent: 0 has zeros and denormal numbers, 255 infinities and NaN. To be summed over ranks.
  std::span<std::uint64_t> counts() { return counts_; }
  /// Returns a bar for each power of two from the smallest magnitude to the largest, over the decimal logarithm of the
  /// magnitude; empty if there is none. Zeros and values that are not finite are left out.
  std::vector<HistogramBar> bars_of_logarithms() const;

 private:
  static constexpr std::size_t kExponents = 256;

  std::array<std::uint64_t, kExponents> counts_{};
};

/// Appends events to a new file; one writer per run, on rank 0. Every event is flushed.
class EventFile {
 public:
  /// Creates FOLDER/events.out.tfevents.SECONDS.HOST.PID, whose name sorts after all event files there: TensorBoard
  /// reads files in the order of their names. The file begins with a SessionLog START at the step `first_step`, with
  /// which TensorBoard drops events of that step and later ones from earlier files: a resumed run repeats them.
  /// @throws SystemError if the file cannot be made.
  EventFile(const std::filesystem::path& folder, std::uint64_t first_step);

  /// Writes an event. Numbers are stored as float32. @throws SystemError (append_flushed).
  void write_scalars(std::uint64_t step, std::span<const Scalar> scalars);
  /// @param markdown TensorBoard renders it.
  void write_text(std::uint64_t step, std::string_view tag, std::string_view markdown);
  void write_histogram(std::uint64_t step, std::string_view tag, std::string_view description,
                       std::span<const HistogramBar> bars);

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_event(std::uint64_t step, std::string_view content);

  std::filesystem::path path_;
  std::ofstream file_;
};

/// Appends bytes to an open file, and flushes. @throws SystemError if they cannot be written (full disk), or the file
/// was removed.
void append_flushed(std::ofstream& file, const std::filesystem::path& path, std::string_view bytes);

/// Returns the event files of a folder, in the order of their names.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/metrics/event_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <numbers>
#include <unistd.h>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::trainer {
namespace {

constexpr std::string_view kNamePrefix = "events.out.tfevents.";

/// Returns a CRC as TFRecord stores it: a CRC of data that hold CRCs would be weak.
std::uint32_t masked(std::uint32_t crc) {
  return std::rotr(crc, 15) + 0xA282EAD8u;
}

/// Returns the bytes of a number, little-endian as all machines that this program runs on.
template <class T>
std::string bytes_of(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

// The fields of a message in protobuf's wire format: a key of number and kind, then the value.
enum Kind : std::uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

std::string key(std::uint64_t number, Kind kind) {
  return varint(number << 3 | kind);
}

std::string integer_field(std::uint64_t number, std::uint64_t value) {
  return key(number, kVarint) + varint(value);
}

std::string double_field(std::uint64_t number, double value) {
  return key(number, kFixed64) + bytes_of(value);
}

std::string float_field(std::uint64_t number, float value) {
  return key(number, kFixed32) + bytes_of(value);
}

/// Returns a field of text, bytes or a message.
std::string field(std::uint64_t number, std::string_view content) {
  return key(number, kLengthDelimited) + varint(content.size()) + std::string(content);
}

// The numbers of fields that are used, and their values, by message: tensorflow/core/util/event.proto, and
// summary.proto, tensor.proto, tensor_shape.proto in tensorflow/core/framework.
enum EventField : std::uint64_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SessionField : std::uint64_t { kSessionLogStatus = 1, kSessionStart = 1 };
enum SummaryField : std::uint64_t { kSummaryValue = 1 };
enum ValueField : std::uint64_t { kValueTag = 1, kValueSimple = 2, kValueTensor = 8, kValueMetadata = 9 };
enum MetadataField : std::uint64_t { kMetadataPluginData = 1, kMetadataDescription = 3, kMetadataDataClass = 4 };
enum PluginField : std::uint64_t { kPluginDataName = 1, kClassTensor = 2 };
enum TensorField : std::uint64_t { kTensorType = 1, kTensorShape = 2, kTensorContent = 4, kTensorStrings = 8 };
enum TensorType : std::uint64_t { kTypeDouble = 2, kTypeString = 7 };
enum ShapeField : std::uint64_t { kShapeAxis = 2, kAxisSize = 1 };

/// Returns an event with one summary value: a tensor that a plugin of TensorBoard shows.
std::string plugin_summary(std::string_view plugin, std::string_view tag, std::string_view description,
                           const std::string& tensor) {
  const std::string metadata = field(kMetadataPluginData, field(kPluginDataName, plugin)) +
                               field(kMetadataDescription, description) +
                               integer_field(kMetadataDataClass, kClassTensor);
  const std::string value = field(kValueTag, tag) + field(kValueTensor, tensor) + field(kValueMetadata, metadata);
  return field(kSummary, field(kSummaryValue, value));
}

std::string axis(std::size_t size) {
  return field(kShapeAxis, integer_field(kAxisSize, size));
}

/// Returns the seconds in a file's name; 0 if it has none.
std::int64_t seconds_in_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::int64_t seconds = 0;
  std::from_chars(name.data() + std::min(kNamePrefix.size(), name.size()), name.data() + name.size(), seconds);
  return seconds;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns the path of a new file, which sorts last also where the clock went back or less than a second has passed.
std::filesystem::path new_path(const std::filesystem::path& folder) {
  auto seconds = static_cast<std::int64_t>(seconds_since_1970());
  for (const std::filesystem::path& earlier : event_files(folder)) {
    seconds = std::max(seconds, seconds_in_name(earlier) + 1);
  }
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) std::strcpy(host.data(), "unknown");
  return folder / fmt::format("{}{:010}.{}.{}", kNamePrefix, seconds, host.data(), ::getpid());
}

/// Returns the decimal logarithm of the smallest number with this biased exponent.
double logarithm(std::size_t exponent) {
  return (static_cast<double>(exponent) - 127) * std::numbers::ln2 / std::numbers::ln10;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  constexpr std::uint32_t kReflectedPolynomial = 0x82F63B78u;
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflectedPolynomial : 0u);
  }
  return ~crc;
}

std::string framed(std::string_view bytes) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(bytes.size()));
  return length + bytes_of(masked(crc32c(length))) + std::string(bytes) + bytes_of(masked(crc32c(bytes)));
}

void MagnitudeCounts::add(std::span<const float> values) {
  for (const float value : values) ++counts_[std::bit_cast<std::uint32_t>(value) >> 23 & 0xFF];
}

std::vector<HistogramBar> MagnitudeCounts::bars_of_logarithms() const {
  std::size_t first = 1, end = kExponents - 1;
  while (first < end && counts_[first] == 0) ++first;
  while (end > first && counts_[end - 1] == 0) --end;
  std::vector<HistogramBar> bars;
  for (std::size_t exponent = first; exponent < end; ++exponent) {
    bars.push_back({logarithm(exponent), logarithm(exponent + 1), static_cast<double>(counts_[exponent])});
  }
  return bars;
}

EventFile::EventFile(const std::filesystem::path& folder, std::uint64_t first_step) : path_(new_path(folder)) {
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (!file_) throw SystemError(fmt::format("cannot open {}: {}", path_.string(), std::strerror(errno)));
  write_event(0, field(kFileVersion, "brain.Event:2"));
  write_event(first_step, field(kSessionLog, integer_field(kSessionLogStatus, kSessionStart)));
}

void EventFile::write_scalars(std::uint64_t step, std::span<const Scalar> scalars) {
  std::string values;
  for (const Scalar& scalar : scalars) {
    values += field(kSummaryValue,
                    field(kValueTag, scalar.tag) + float_field(kValueSimple, static_cast<float>(scalar.value)));
  }
  write_event(step, field(kSummary, values));
}

void EventFile::write_text(std::uint64_t step, std::string_view tag, std::string_view markdown) {
  const std::string text =
      integer_field(kTensorType, kTypeString) + field(kTensorShape, axis(1)) + field(kTensorStrings, markdown);
  write_event(step, plugin_summary("text", tag, "", text));
}

void EventFile::write_histogram(std::uint64_t step, std::string_view tag, std::string_view description,
                                std::span<const HistogramBar> bars) {
  std::string rows;
  for (const HistogramBar& bar : bars) rows += bytes_of(bar.left) + bytes_of(bar.right) + bytes_of(bar.count);
  const std::string shape = axis(bars.size()) + axis(3);
  const std::string table =
      integer_field(kTensorType, kTypeDouble) + field(kTensorShape, shape) + field(kTensorContent, rows);
  write_event(step, plugin_summary("histograms", tag, description, table));
}

void EventFile::write_event(std::uint64_t step, std::string_view content) {
  const std::string head = double_field(kWallTime, seconds_since_1970()) + integer_field(kStep, step);
  append_flushed(file_, path_, framed(head + std::string(content)));
}

void append_flushed(std::ofstream& file, const std::filesystem::path& path, std::string_view bytes) {
  file << bytes << std::flush;
  if (!file) throw SystemError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
  // The system goes on writing to a file that nobody can find.
  if (!std::filesystem::exists(path))
    throw SystemError(fmt::format("{} was removed while the run was writing to it", path.string()));
}

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kNamePrefix)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace dragonn::trainer

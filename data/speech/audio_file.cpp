// SPDX-License-Identifier: MIT
#include "data/speech/audio_file.h"

#include <algorithm>
#include <array>
#include <memory>
#include <sndfile.h>
#include <string_view>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::data {
namespace {

struct Close {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

/// Returns whether the file is shorter than its header says. libsndfile takes the smaller of the two and mentions the
/// difference in its log only.
bool is_shorter_than_its_header_says(SNDFILE* file) {
  std::array<char, 16384> log{};
  const int length = sf_command(file, SFC_GET_LOG_INFO, log.data(), static_cast<int>(log.size()));
  const std::string_view text(log.data(), static_cast<std::size_t>(std::max(length, 0)));
  for (std::size_t at = text.find("data : "); at != std::string_view::npos; at = text.find("data : ", at + 1)) {
    if (text.substr(at, text.find('\n', at) - at).find("should be") != std::string_view::npos) return true;
  }
  return false;
}

/// Reads at most `frames` samples, block by block: a damaged header may claim more than any memory holds.
Samples read_samples(SNDFILE* file, sf_count_t frames) {
  constexpr sf_count_t kBlock = 1 << 16;
  Samples samples;
  for (;;) {
    const std::size_t begin = samples.size();
    const sf_count_t wanted = std::min(kBlock, frames - static_cast<sf_count_t>(begin));
    samples.resize(begin + static_cast<std::size_t>(wanted));
    const sf_count_t count = sf_readf_short(file, samples.data() + begin, wanted);
    samples.resize(begin + static_cast<std::size_t>(std::max<sf_count_t>(count, 0)));
    if (count < kBlock) return samples;
  }
}

}  // namespace

Samples read_audio(const std::filesystem::path& path, int sample_rate, std::size_t max_samples) {
  const RegularFile regular = open_regular_file(path);  // libsndfile would wait for a pipe
  SF_INFO info{};
  if (path.extension() == ".raw") {
    if (regular.bytes % sizeof(std::int16_t) != 0) {
      throw DataError(
          fmt::format("{}: truncated: ends within a sample of {} bytes", path.string(), sizeof(std::int16_t)));
    }
    info = {.frames = 0,
            .samplerate = sample_rate,
            .channels = 1,
            .format = SF_FORMAT_RAW | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG,
            .sections = 0,
            .seekable = 0};
  }
  const std::unique_ptr<SNDFILE, Close> file(sf_open(path.c_str(), SFM_READ, &info));
  if (!file) throw DataError(fmt::format("{}: not readable as audio: {}", path.string(), sf_strerror(nullptr)));
  if (info.channels != 1) {
    throw DataError(fmt::format("{}: {} channels: should be 1", path.string(), info.channels));
  }
  if (info.samplerate != sample_rate) {
    throw DataError(
        fmt::format("{}: {} samples per second: should be {}", path.string(), info.samplerate, sample_rate));
  }
  if (info.frames <= 0) throw DataError(fmt::format("{}: no samples", path.string()));
  if (info.frames == SF_COUNT_MAX) {
    throw DataError(
        fmt::format("{}: its header states no number of samples: encode it into a file, not a pipe", path.string()));
  }
  // A few bytes of FLAC stand for any number of samples, so the header decides before anything is decoded. A header
  // that states less than there is bounds what is read.
  if (static_cast<std::uint64_t>(info.frames) > max_samples) {
    const auto seconds = [&](auto samples) { return static_cast<double>(samples) / sample_rate; };
    throw DataError(fmt::format("{}: {:.2f} s: longer than data.longest_seconds, {:.2f} s", path.string(),
                                seconds(info.frames), seconds(max_samples)));
  }
  const Samples samples = read_samples(file.get(), info.frames);
  const auto count = static_cast<sf_count_t>(samples.size());
  if (count != info.frames || is_shorter_than_its_header_says(file.get())) {
    throw DataError(fmt::format("{}: truncated after {} samples", path.string(), count));
  }
  return samples;
}

}  // namespace dragonn::data

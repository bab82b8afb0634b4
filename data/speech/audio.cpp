// SPDX-License-Identifier: MIT
#include "data/speech/audio.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fftw3.h>
#include <mutex>
#include <numbers>
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

/// FFTW makes plans in one thread at a time; running them needs no lock.
std::mutex& planner_mutex() {
  static std::mutex mutex;
  return mutex;
}

struct Free {
  void operator()(void* memory) const { fftwf_free(memory); }
};
template <class T>
using FftwArray = std::unique_ptr<T[], Free>;

void normalize(std::span<float> values) {
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  const double variance = std::max(0.0, squares / count - mean * mean);
  constexpr double kSilence = 1e-12;  // an utterance of equal values becomes all zeros
  const double scale = variance > kSilence ? 1 / std::sqrt(variance) : 0.0;
  for (float& value : values) value = static_cast<float>((value - mean) * scale);
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

struct Spectrogram::Transform {
  explicit Transform(std::size_t window) : weights(window) {
    const double step = 2 * std::numbers::pi / static_cast<double>(window - 1);
    for (std::size_t i = 0; i < window; ++i) {
      weights[i] = static_cast<float>(0.54 - 0.46 * std::cos(step * static_cast<double>(i)));
    }
    const FftwArray<float> input(fftwf_alloc_real(window));
    const FftwArray<fftwf_complex> output(fftwf_alloc_complex(window / 2 + 1));
    const std::scoped_lock lock(planner_mutex());
    // Plans are estimated: measuring would pick another algorithm, and other bits, from run to run.
    plan = fftwf_plan_dft_r2c_1d(static_cast<int>(window), input.get(), output.get(), FFTW_ESTIMATE);
    DRAGONN_CHECK(plan != nullptr, "FFTW has no plan for {} samples", window);
  }
  ~Transform() {
    const std::scoped_lock lock(planner_mutex());
    fftwf_destroy_plan(plan);
  }
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  std::vector<float> weights;
  fftwf_plan plan;
};

Spectrogram::Spectrogram(const SpectrogramRules& rules)
    : window_(static_cast<std::size_t>(std::lround(rules.window_seconds * rules.sample_rate))),
      stride_(static_cast<std::size_t>(std::lround(rules.stride_seconds * rules.sample_rate))) {
  if (window_ < 2 || stride_ < 1) {
    throw ConfigError(
        fmt::format("a spectrogram of {} s windows every {} s at {} samples per second: a window must hold "
                    "2 samples, a stride 1",
                    rules.window_seconds, rules.stride_seconds, rules.sample_rate));
  }
  transform_ = std::make_unique<Transform>(window_);
}

Spectrogram::~Spectrogram() = default;

std::size_t Spectrogram::frames(std::size_t samples) const {
  return samples <= window_ ? 1 : 1 + (samples - window_) / stride_;
}

void Spectrogram::compute(std::span<const std::int16_t> samples, std::span<float> features) const {
  DRAGONN_CHECK(features.size() == frames(samples.size()) * bins(), "{} features of {} samples: should be {} x {}",
                features.size(), samples.size(), frames(samples.size()), bins());
  const FftwArray<float> input(fftwf_alloc_real(window_));
  const FftwArray<fftwf_complex> output(fftwf_alloc_complex(bins()));
  for (std::size_t frame = 0; frame < frames(samples.size()); ++frame) {
    const std::size_t begin = frame * stride_;
    for (std::size_t i = 0; i < window_; ++i) {
      const float sample = begin + i < samples.size() ? static_cast<float>(samples[begin + i]) / 32768.0f : 0.0f;
      input[i] = sample * transform_->weights[i];
    }
    fftwf_execute_dft_r2c(transform_->plan, input.get(), output.get());
    for (std::size_t bin = 0; bin < bins(); ++bin) {
      features[frame * bins() + bin] = std::log1p(std::hypot(output[bin][0], output[bin][1]));
    }
  }
  normalize(features);
}

}  // namespace dragonn::data

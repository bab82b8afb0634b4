// SPDX-License-Identifier: MIT
/// Audio: files of samples, and the features of speech, log magnitudes over short windows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace dragonn::data {

/// The 16-bit samples of one channel: [-32768, 32767] stands for [-1, 1).
using Samples = std::vector<std::int16_t>;

/// Reads a file of any format that libsndfile knows (WAV, FLAC, Ogg, ...); .raw is headerless 16-bit big-endian (as
/// AN4's). @param max_samples a file with more is refused by its header, before it is decoded.
/// @throws ConfigError if the file is missing or no regular file; DataError if it is damaged, is cut short, has no
/// sample, more than `max_samples` or more than one channel, or another rate than `sample_rate` (per second).
Samples read_audio(const std::filesystem::path& path, int sample_rate, std::size_t max_samples);

struct SpectrogramRules {
  int sample_rate = 16000;       ///< per second
  double window_seconds = 0.02;  ///< length of a frame
  double stride_seconds = 0.01;  ///< distance between the beginnings of frames
};

/// Computes log(1 + |FFT of a Hamming window|), then shifts and scales it so that one utterance's values have mean 0
/// and deviation 1. Source: Amodei et al., "Deep Speech 2", arXiv:1512.02595. Equal samples give equal bits.
class Spectrogram {
 public:
  /// @throws ConfigError unless a window holds at least 2 samples and a stride at least 1.
  explicit Spectrogram(const SpectrogramRules& rules);
  ~Spectrogram();
  Spectrogram(const Spectrogram&) = delete;
  Spectrogram& operator=(const Spectrogram&) = delete;

  std::size_t bins() const { return window_ / 2 + 1; }
  /// Returns the number of whole windows; an utterance shorter than one is padded with silence to it.
  std::size_t frames(std::size_t samples) const;
  /// Computes the features. @param features [frames(samples.size()), bins()]. May be called from several threads.
  void compute(std::span<const std::int16_t> samples, std::span<float> features) const;

 private:
  struct Transform;

  std::size_t window_;
  std::size_t stride_;
  std::unique_ptr<Transform> transform_;
};

}  // namespace dragonn::data

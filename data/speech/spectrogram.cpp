// SPDX-License-Identifier: MIT
#include "data/speech/spectrogram.h"

#include <algorithm>
#include <cmath>
#include <fftw3.h>
#include <mutex>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::data {
namespace {

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

FftwArray<float> make_input(std::size_t size) {
  return FftwArray<float>(fftwf_alloc_real(size));
}
FftwArray<fftwf_complex> make_output(std::size_t size) {
  return FftwArray<fftwf_complex>(fftwf_alloc_complex(size));
}

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

struct Spectrogram::Transform {
  explicit Transform(std::size_t window) : weights(window) {
    const double step = 2 * std::numbers::pi / static_cast<double>(window - 1);
    for (std::size_t i = 0; i < window; ++i) {
      weights[i] = static_cast<float>(0.54 - 0.46 * std::cos(step * static_cast<double>(i)));
    }
    const FftwArray<float> input = make_input(window);
    const FftwArray<fftwf_complex> output = make_output(window / 2 + 1);
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
  const FftwArray<float> input = make_input(window_);
  const FftwArray<fftwf_complex> output = make_output(bins());
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

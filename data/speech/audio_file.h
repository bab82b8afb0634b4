// SPDX-License-Identifier: MIT
/// Audio files: samples of one channel, read by libsndfile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace dragonn::data {

/// The 16-bit samples of one channel: [-32768, 32767] stands for [-1, 1).
using Samples = std::vector<std::int16_t>;

/// Reads a file of any format that libsndfile knows (WAV, FLAC, Ogg, ...); .raw is headerless 16-bit big-endian (as
/// AN4's). @param max_samples a file with more is refused by its header, before it is decoded.
/// @throws ConfigError if the file is missing or no regular file; DataError if it is damaged, is cut short, has no
/// sample, more than `max_samples` or more than one channel, or another rate than `sample_rate` (per second).
Samples read_audio(const std::filesystem::path& path, int sample_rate, std::size_t max_samples);

}  // namespace dragonn::data

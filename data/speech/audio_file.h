// SPDX-License-Identifier: MIT
/// Audio files: samples of one channel, read by libsndfile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace dragonn::data {

/// The 16-bit samples of one channel: [-32768, 32767] stands for [-1, 1).
using Samples = std::vector<std::int16_t>;

/// Reads a file of any format that libsndfile knows (WAV, FLAC, Ogg, ...); .raw is headerless 16-bit big-endian (as
/// AN4's). @throws ConfigError if the file is missing; DataError if it is damaged, is cut short, has no sample, has
/// another rate than `sample_rate` (per second), or more than one channel.
Samples read_audio(const std::filesystem::path& path, int sample_rate);

}  // namespace dragonn::data

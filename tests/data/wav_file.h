// SPDX-License-Identifier: MIT
/// WAV files for tests, byte by byte.
#pragma once

#include <cstdint>
#include <string>

#include "data/speech/audio.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {

/// A canonical WAV file: 44 bytes of header, then 16-bit samples.
inline Bytes wav_file(const Samples& samples, std::uint32_t rate, std::uint32_t channels = 1) {
  Bytes bytes;
  const auto append = [&](std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  };
  const auto append_text = [&](const std::string& text) {
    for (const char character : text) bytes.push_back(static_cast<std::uint8_t>(character));
  };
  const auto data_size = static_cast<std::uint32_t>(2 * samples.size());
  append_text("RIFF");
  append(36 + data_size, 4);
  append_text("WAVEfmt ");
  append(16, 4);
  append(1, 2);  // PCM
  append(channels, 2);
  append(rate, 4);
  append(rate * channels * 2, 4);
  append(channels * 2, 2);
  append(16, 2);
  append_text("data");
  append(data_size, 4);
  for (const std::int16_t sample : samples) append(static_cast<std::uint16_t>(sample), 2);
  return bytes;
}

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include <cmath>
#include <complex>
#include <numbers>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/rng.h"
#include "data/speech/audio.h"
#include "data/speech/transcripts.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"
#include "tests/data/flac_file.h"
#include "tests/data/wav_file.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;

constexpr std::size_t kMinute = 60 * 16000;  ///< samples

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  write_bytes(path, Bytes(text.begin(), text.end()));
}

Samples noise(std::size_t count) {
  Rng rng(7);
  Samples samples(count);
  for (std::int16_t& sample : samples) sample = static_cast<std::int16_t>(1000 * rng.normal());
  return samples;
}

/// Computes the spectrogram by its definition, in float64.
std::vector<double> spectrogram_by_definition(const Samples& samples, std::size_t window, std::size_t stride,
                                              std::size_t frames) {
  std::vector<double> values;
  for (std::size_t frame = 0; frame < frames; ++frame) {
    for (std::size_t bin = 0; bin <= window / 2; ++bin) {
      std::complex<double> sum;
      for (std::size_t i = 0; i < window; ++i) {
        const std::size_t at = frame * stride + i;
        const double sample = at < samples.size() ? samples[at] / 32768.0 : 0.0;
        const double weight =
            0.54 - 0.46 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(window - 1));
        sum += sample * weight *
               std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(bin * i) / static_cast<double>(window));
      }
      values.push_back(std::log1p(std::abs(sum)));
    }
  }
  double mean = 0, variance = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) variance += (value - mean) * (value - mean) / static_cast<double>(values.size());
  for (double& value : values) value = (value - mean) / std::sqrt(variance);
  return values;
}

TEST_SUITE("data") {
  TEST_CASE("audio files give their samples back, whatever the byte order") {
    const TemporaryFolder folder;
    const Samples samples{0, 1, -1, 32767, -32768, 256};
    write_bytes(folder / "a.wav", wav_file(samples, 16000));
    CHECK(read_audio(folder / "a.wav", 16000, kMinute) == samples);
    Bytes raw;
    for (const std::int16_t sample : samples) {
      raw.push_back(static_cast<std::uint8_t>(static_cast<std::uint16_t>(sample) >> 8));
      raw.push_back(static_cast<std::uint8_t>(sample));
    }
    write_bytes(folder / "a.raw", raw);
    CHECK(read_audio(folder / "a.raw", 16000, kMinute) == samples);
  }

  TEST_CASE("damaged audio files are errors that name the file and what is wrong") {
    const TemporaryFolder folder;
    const auto message = [&](const Bytes& bytes) {
      write_bytes(folder / "a.wav", bytes);
      return error_of<DataError>([&] { read_audio(folder / "a.wav", 16000, kMinute); });
    };
    CHECK(contains(message(wav_file(noise(100), 8000)), "a.wav: 8000 samples per second: should be 16000"));
    CHECK(contains(message(wav_file(noise(100), 16000, 2)), "a.wav: 2 channels: should be 1"));
    CHECK(contains(message(wav_file({}, 16000)), "a.wav: no samples"));
    CHECK(contains(message({'n', 'o', 'n', 'e'}), "a.wav: not readable as audio"));
    Bytes cut = wav_file(noise(100), 16000);
    cut.resize(cut.size() - 60);
    CHECK(contains(message(cut), "a.wav: truncated after 70 samples"));
    CHECK(contains(error_of<ConfigError>([&] { read_audio(folder / "b.wav", 16000, kMinute); }), "no such file: "));
  }

  TEST_CASE("a header's claim is not believed before the samples are there") {
    // 256 samples of silence as FLAC: the marker, the stream's parameters, a comment and a frame of a constant.
    Bytes flac{0x66, 0x4c, 0x61, 0x43, 0x00, 0x00, 0x00, 0x22, 0x10, 0x00, 0x10, 0x00, 0x00, 0x00, 0x0b, 0x00, 0x00,
               0x0b, 0x03, 0xe8, 0x00, 0xf0, 0x00, 0x00, 0x01, 0x00, 0xbf, 0x61, 0x9e, 0xac, 0x0c, 0xdf, 0x3f, 0x68,
               0xd4, 0x96, 0xea, 0x93, 0x44, 0x13, 0x7e, 0x8b, 0x84, 0x00, 0x00, 0x28, 0x20, 0x00, 0x00, 0x00, 0x72,
               0x65, 0x66, 0x65, 0x72, 0x65, 0x6e, 0x63, 0x65, 0x20, 0x6c, 0x69, 0x62, 0x46, 0x4c, 0x41, 0x43, 0x20,
               0x31, 0x2e, 0x34, 0x2e, 0x32, 0x20, 0x32, 0x30, 0x32, 0x32, 0x31, 0x30, 0x32, 0x32, 0x00, 0x00, 0x00,
               0x00, 0xff, 0xf8, 0x85, 0x08, 0x00, 0xe9, 0x00, 0x00, 0x00, 0x59, 0x69};
    const TemporaryFolder folder;
    write_bytes(folder / "a.flac", flac);
    CHECK(read_audio(folder / "a.flac", 16000, kMinute) == Samples(256, 0));
    flac[21] = 0xff;  // the number of samples has 36 bits: now 2^36 - 2^32 + 256, of which 128 GB would be asked for
    write_bytes(folder / "a.flac", flac);
    CHECK(contains(error_of<DataError>([&] { read_audio(folder / "a.flac", 16000, SIZE_MAX); }),
                   "a.flac: truncated after 256 samples"));
  }

  TEST_CASE("a few bytes of FLAC that stand for gigabytes of samples are not decoded") {
    const TemporaryFolder folder;
    constexpr std::uint32_t kFrames = 25'000;  // 29 hours
    const auto largest_memory = [] {
      rusage usage{};
      ::getrusage(RUSAGE_SELF, &usage);
      return usage.ru_maxrss * 1024;
    };
    const auto read = [&](std::uint32_t frames, std::uint64_t stated) {
      write_bytes(folder / "a.flac", flac_silence(frames, stated));
      return read_audio(folder / "a.flac", 16000, kMinute);
    };
    CHECK(read(2, 2 * kFlacFrame) == Samples(2 * kFlacFrame, 0));
    const auto before = largest_memory();
    CHECK(contains(error_of<DataError>([&] { read(kFrames, kFrames * kFlacFrame); }),
                   "a.flac: 102398.44 s: longer than data.longest_seconds, 60.00 s"));
    CHECK(read(kFrames, 1000) == Samples(1000, 0));  // a header that states less bounds what is read
    CHECK(contains(error_of<DataError>([&] { read(kFrames, 0); }), "a.flac: its header states no number of samples"));
    CHECK(largest_memory() - before < 100'000'000);
  }

  TEST_CASE("texts and names of megabytes, or with controls, are shown short and printable") {
    const TemporaryFolder folder;
    const std::string huge(5'000'000, 'x'), hostile = "\x1b]0;owned\x07\x1b[2J";
    const auto check = [](const std::string& message, const char* reason) {
      CAPTURE(message.substr(0, 2000));
      CHECK(contains(message, reason));
      CHECK(message.size() < 1500);
      CHECK(!contains(message, "\x1b"));
      CHECK(!contains(message, "\x07"));
    };
    const auto manifest = [&](const std::string& text) {
      write_text(folder / "train.tsv", text);
      BadSamples errors;
      return error_of<DataError>([&] { read_manifest(folder / "train.tsv", errors); });
    };
    const auto an4 = [&](const std::string& files, const std::string& texts) {
      write_text(folder / "etc/t.fileids", files);
      write_text(folder / "etc/t.transcription", texts);
      BadSamples errors;
      return error_of<DataError>([&] { read_an4_transcripts(folder.path(), "t", errors); });
    };
    for (const std::string& text : {huge, hostile}) {
      check(manifest(text + "\tone\n"), "train.tsv:1: no audio file");
      check(manifest(text + "\n"), "is not 'audio file <TAB> text'");
      check(an4(text + "\n", "GO (" + text + ")\n"), "no audio file");
      check(an4("a\n", "GO (" + text + ")\n"), "is about '");
      check(an4("a\n", text + "\n"), "does not end with the name of a file");
      check(error_of<DataError>([&] { Alphabet("A").encode(text, {"texts", 3}); }), "is not in the alphabet 'A'");
      check(error_of<ConfigError>([&] { Alphabet(text + "\t"); }), "alphabet '");
    }
  }

  TEST_CASE("a spectrogram is the log magnitude of windowed transforms, normalized") {
    const Spectrogram spectrogram({.sample_rate = 1000, .window_seconds = 0.02, .stride_seconds = 0.008});
    CHECK(spectrogram.bins() == 11);
    for (const std::size_t count : {20, 27, 28, 100}) {
      CAPTURE(count);
      const Samples samples = noise(count);
      const std::size_t frames = spectrogram.frames(count);
      CHECK(frames == 1 + (count - 20) / 8);
      std::vector<float> features(frames * spectrogram.bins());
      spectrogram.compute(samples, features);
      const std::vector<double> expected = spectrogram_by_definition(samples, 20, 8, frames);
      for (std::size_t i = 0; i < features.size(); ++i) CHECK(std::abs(features[i] - expected[i]) < 1e-4);
    }
  }

  TEST_CASE("a spectrogram pads an utterance below one window, and of silence is zero") {
    const Spectrogram spectrogram({.sample_rate = 1000, .window_seconds = 0.02, .stride_seconds = 0.01});
    CHECK(spectrogram.frames(3) == 1);
    std::vector<float> features(spectrogram.bins());
    const Samples samples = noise(3);
    spectrogram.compute(samples, features);
    const std::vector<double> expected = spectrogram_by_definition(samples, 20, 10, 1);
    for (std::size_t i = 0; i < features.size(); ++i) CHECK(std::abs(features[i] - expected[i]) < 1e-4);
    spectrogram.compute(Samples(20, 0), features);
    for (const float value : features) CHECK(value == 0);
    CHECK(contains(error_of<ConfigError>([] { Spectrogram({.sample_rate = 10}); }), "a window must hold"));
  }

  TEST_CASE("AN4's lists pair audio files with texts") {
    const TemporaryFolder folder;
    write_text(folder / "etc/t.fileids", "set/x/a-x\nset/y/b-y\n");
    write_text(folder / "etc/t.transcription", "<s> GO ON </s> (a-x)\nSTOP (b-y)\n");
    write_text(folder / "wav/set/x/a-x.wav", "audio");
    write_text(folder / "wav/set/y/b-y.raw", "audio");
    BadSamples errors;
    const std::vector<Utterance> utterances = read_an4_transcripts(folder.path(), "t", errors);
    REQUIRE(utterances.size() == 2);
    CHECK(utterances[0].text == "GO ON");
    CHECK(utterances[0].audio == folder / "wav/set/x/a-x.wav");
    CHECK(utterances[1].text == "STOP");
    CHECK(utterances[1].place.line == 2);

    const auto message = [&](const std::string& files, const std::string& texts) {
      write_text(folder / "etc/t.fileids", files);
      write_text(folder / "etc/t.transcription", texts);
      return error_of<DataError>([&] { read_an4_transcripts(folder.path(), "t", errors); });
    };
    CHECK(contains(message("set/x/a-x\n", "GO\n"), "t.transcription:1: 'GO' does not end with the name of a file"));
    CHECK(contains(message("set/x/a-x\n", "GO (b-y)\n"), "t.transcription:1: is about 'b-y'"));
    CHECK(contains(message("set/x/a-x\nset/y/b-y\n", "GO (a-x)\n"), "t.fileids: 2 files"));
    CHECK(contains(message("set/x/c-x\n", "GO (c-x)\n"), "t.fileids:1: no audio file"));
    const std::string longer_than_names_may_be(5000, 'x');
    CHECK(
        contains(message(longer_than_names_may_be + "\n", "GO (" + longer_than_names_may_be + ")\n"), "no audio file"));
    CHECK(contains(message("set/x/a-x\n\n", "GO (a-x)\n"), "t.fileids:2: an empty line"));
    CHECK(contains(message("set/x/a-x\n", ""), "t.transcription: an empty file"));
  }

  TEST_CASE("bad lines of either of AN4's lists can be left out with their partners") {
    const TemporaryFolder folder;
    for (const char* name : {"a", "b", "c"}) write_text(folder / "wav" / (std::string(name) + ".raw"), "audio");
    const auto read = [&](const std::string& files, const std::string& texts) {
      write_text(folder / "etc/t.fileids", files);
      write_text(folder / "etc/t.transcription", texts);
      BadSamples skipped = skipping();
      std::string found;
      for (const Utterance& utterance : read_an4_transcripts(folder.path(), "t", skipped)) {
        found += utterance.audio.stem().string() + "=" + utterance.text + ";";
      }
      return found + std::to_string(skipped.count());
    };
    CHECK(read("a\nb\nc\n", "X (a)\nY (b)\nZ (c)\n") == "a=X;b=Y;c=Z;0");
    CHECK(read("a\nb\nc\n", "X (a)\n\nZ (c)\n") == "a=X;c=Z;1");             // in place of a line
    CHECK(read("a\nb\nc\n", "X (a)\n\nY (b)\nZ (c)\n") == "a=X;b=Y;c=Z;1");  // a line more
    CHECK(read("a\nb\nc\n", "X (a)\nY\xFF (b)\nZ (c)\n") == "a=X;c=Z;1");
    CHECK(read("a\nd\nc\n", "X (a)\nY (d)\nZ\n") == "a=X;2");
  }

  TEST_CASE("a manifest pairs audio files with texts") {
    const TemporaryFolder folder;
    write_text(folder / "a.wav", "audio");
    write_text(folder / "train.tsv", "a.wav\tone two\n");
    BadSamples errors;
    const std::vector<Utterance> utterances = read_manifest(folder / "train.tsv", errors);
    REQUIRE(utterances.size() == 1);
    CHECK(utterances[0].text == "one two");
    CHECK(utterances[0].audio == folder / "a.wav");
    write_text(folder / "train.tsv", "a.wav\tone\nb.wav\ttwo\n");
    CHECK(contains(error_of<DataError>([&] { read_manifest(folder / "train.tsv", errors); }),
                   "train.tsv:2: no audio file"));
    write_text(folder / "train.tsv", std::string(300, 'x') + "\tone\n");
    CHECK(contains(error_of<DataError>([&] { read_manifest(folder / "train.tsv", errors); }),
                   "train.tsv:1: no audio file"));
    write_text(folder / "train.tsv", "a.wav one\n");
    CHECK(contains(error_of<DataError>([&] { read_manifest(folder / "train.tsv", errors); }),
                   "train.tsv:1: 'a.wav one'"));
    write_text(folder / "train.tsv", "a.wav one\n\na.wav\tone\nb.wav\ttwo\na.wav\t\xFF\n");
    BadSamples skipped = skipping();
    CHECK(read_manifest(folder / "train.tsv", skipped).size() == 1);
    CHECK(skipped.count() == 4);
    CHECK(contains(skipped.notes("utterances").at(0), "4 utterances left out (data.bad_samples); the first:"));
    CHECK(contains(skipped.first(), "train.tsv:1: 'a.wav one'"));
    write_text(folder / "train.tsv", "a.wav\tone\na.wav\t\xFF\n");
    CHECK(contains(error_of<DataError>([&] { read_manifest(folder / "train.tsv", errors); }),
                   "train.tsv:2: byte 0xff at offset 16 is not UTF-8"));
  }

  TEST_CASE("an alphabet turns texts into labels and back, and names what it does not have") {
    const Alphabet alphabet("AB ");
    CHECK(alphabet.labels() == 4);
    const TextPlace place{"texts", 3};
    CHECK(alphabet.encode("BA B", place) == std::vector<std::int32_t>{2, 1, 3, 2});
    CHECK(alphabet.decode({2, 1, 3, 2}) == "BA B");
    CHECK(alphabet.encode("", place).empty());
    CHECK(contains(error_of<DataError>([&] { alphabet.encode("AXB", place); }), "texts:3: 'X' in 'AXB'"));
    CHECK(contains(error_of<DataError>([&] { alphabet.encode("A\xC3\xA9", place); }), "texts:3: '\xC3\xA9'"));
    CHECK(contains(error_of<ConfigError>([] { Alphabet("ABA"); }), "has 'A' twice"));
    CHECK(contains(error_of<ConfigError>([] { Alphabet(""); }), "without characters"));
    CHECK(contains(error_of<ConfigError>([] { Alphabet("a\tb"); }), "byte 1 is not printable ASCII"));
  }

  TEST_CASE("the real AN4 has 948 and 130 utterances of letters and spaces") {
    const std::filesystem::path folder = real_data("an4");
    if (folder.empty()) return;
    const Alphabet alphabet(" ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    BadSamples errors;
    const std::vector<Utterance> train = read_an4_transcripts(folder, "an4_train", errors);
    const std::vector<Utterance> test = read_an4_transcripts(folder, "an4_test", errors);
    CHECK(train.size() == 948);
    CHECK(test.size() == 130);
    for (const Utterance& utterance : train) CHECK(!alphabet.encode(utterance.text, utterance.place).empty());
    double seconds = 0;
    for (const Utterance& utterance : test) {
      seconds += static_cast<double>(read_audio(utterance.audio, 16000, kMinute).size()) / 16000;
    }
    CHECK(std::abs(seconds / 60 - 5.9) < 0.1);
  }
}

}  // namespace
}  // namespace dragonn::data

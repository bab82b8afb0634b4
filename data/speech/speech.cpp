// SPDX-License-Identifier: MIT
/// The data sets `an4` and `speech`: audio files with transcripts.
#include <cmath>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/printable.h"
#include "data/folder.h"
#include "data/speech/speech_dataset.h"

namespace dragonn::data {
namespace {

/// Lists the utterances of a split ("train" or "test").
using ListUtterances =
    std::function<std::vector<Utterance>(const std::string& folder, const std::string& split, BadSamples& bad)>;

/// Returns the steps that CTC needs for these labels: one for each, and one for a blank between equal ones.
std::size_t min_steps(std::span<const std::int32_t> labels) {
  std::size_t steps = labels.size();
  for (std::size_t i = 1; i < labels.size(); ++i) steps += labels[i] == labels[i - 1] ? 1 : 0;
  return steps;
}

/// Reads utterances one by one.
class Reader {
 public:
  Reader(const Settings& settings, const Spectrogram& spectrogram)
      : spectrogram_(spectrogram),
        alphabet_(settings.text("alphabet")),
        sample_rate_(static_cast<int>(settings.integer("sample_rate"))),
        longest_(static_cast<std::size_t>(std::llround(settings.number("longest_seconds") * sample_rate_))),
        frames_per_step_(static_cast<std::size_t>(settings.integer("frames_per_step"))) {}

  const Alphabet& alphabet() const { return alphabet_; }

  std::vector<Speech> read(std::vector<Utterance> utterances, std::int64_t limit, BadSamples& bad) const {
    if (limit > 0 && static_cast<std::size_t>(limit) < utterances.size()) {
      utterances.erase(utterances.begin() + limit, utterances.end());
    }
    std::vector<Speech> speeches;
    for (const Utterance& utterance : utterances) bad.accept([&] { speeches.push_back(read(utterance)); });
    if (speeches.empty()) throw DataError(fmt::format("no utterance is left; the first bad one: {}", bad.first()));
    return speeches;
  }

 private:
  Speech read(const Utterance& utterance) const {
    const std::string place = utterance.place.text();
    if (utterance.text.empty()) throw DataError(fmt::format("{}: an empty transcript", place));
    Speech speech{read_samples(utterance.audio, place), alphabet_.encode(utterance.text, utterance.place)};
    const std::size_t samples = speech.samples.size();
    const double seconds = static_cast<double>(samples) / sample_rate_;
    const std::size_t steps = (spectrogram_.frames(samples) + frames_per_step_ - 1) / frames_per_step_;
    const std::size_t needed = min_steps(speech.labels);
    if (steps < needed) {
      throw DataError(fmt::format(
          "{}: {}: {:.2f} s: {} steps (data.frames_per_step = {}) for '{}', which needs {}: is it cut off?", place,
          utterance.audio.string(), seconds, steps, frames_per_step_, excerpt(utterance.text), needed));
    }
    return speech;
  }

  Samples read_samples(const std::filesystem::path& audio, const std::string& place) const {
    try {
      return read_audio(audio, sample_rate_, longest_);
    } catch (const DataError& error) {
      throw DataError(fmt::format("{}: {}", place, error.what()));
    } catch (const ConfigError& error) {  // the list named it: it is a bad sample as any other
      throw DataError(fmt::format("{}: {}", place, error.what()));
    }
  }

  const Spectrogram& spectrogram_;
  Alphabet alphabet_;
  int sample_rate_;
  std::size_t longest_;
  std::size_t frames_per_step_;
};

DatasetSplits load(const std::string& name, const ListUtterances& list, const Settings& settings,
                   const std::string& folder) {
  require_own_folder(folder, name);
  BadSamples bad(settings);
  const auto spectrogram = std::make_shared<const Spectrogram>(
      SpectrogramRules{.sample_rate = static_cast<int>(settings.integer("sample_rate")),
                       .window_seconds = settings.number("window_ms") / 1e3,
                       .stride_seconds = settings.number("stride_ms") / 1e3});
  const Reader reader(settings, *spectrogram);
  const auto make = [&](const std::string& split) {
    std::vector<Speech> speeches = reader.read(list(folder, split, bad), settings.integer(split + "_limit"), bad);
    return std::make_shared<const SpeechDataset>(std::move(speeches), reader.alphabet(), spectrogram,
                                                 static_cast<std::size_t>(settings.integer("frame_multiple")));
  };
  auto train = make("train"), test = make("test");
  return {train, test, bad.notes("utterances")};
}

SettingSpecs specs() {
  return {
      SettingSpec::text("alphabet", " 'ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                        "characters of the transcripts; the CTC blank is added"),
      bad_samples_setting("files and transcripts that are damaged, too long, too short or not in the alphabet"),
      SettingSpec::integer("sample_rate", 16000, "sample rate that every file must have, in Hz", 1000, 192000),
      SettingSpec::number("longest_seconds", 30.0, "longest utterance, in seconds", 0, 3600).above_minimum(),
      SettingSpec::number("window_ms", 20.0, "length of a spectrogram frame, in ms", 1, 1000),
      SettingSpec::number("stride_ms", 10.0, "time between the starts of frames, in ms", 1, 1000),
      SettingSpec::integer(
          "frame_multiple", 64,
          "batches are padded to a multiple of this number of frames; the network makes a plan for each padded length",
          1, 100'000),
      SettingSpec::integer(
          "frames_per_step", 2,
          "frames per time step of the model; an utterance with fewer steps than its transcript needs is a bad sample",
          1, 1000),
      SettingSpec::integer("train_limit", 0, "use only the first N training utterances; 0: all", 0),
      SettingSpec::integer("test_limit", 0, "use only the first N test utterances; 0: all", 0),
  };
}

DatasetEntry entry(const std::string& name, const std::string& summary, const std::string& source,
                   const ListUtterances& list) {
  return {{name, summary, source, specs()},
          [name, list](const Settings& settings, const std::string& folder, std::uint64_t /*seed*/) {
            return load(name, list, settings, folder);
          }};
}

const Registration<DatasetEntry> an4{
    entry("an4", "CMU AN4: spelled letters, numbers and commands, 16 kHz speech",
          "Acero, Acoustical and environmental robustness in automatic speech recognition, 1990",
          [](const std::string& folder, const std::string& split, BadSamples& bad) {
            return read_an4_transcripts(folder, "an4_" + split, bad);
          })};
const Registration<DatasetEntry> speech{
    entry("speech", "audio files with transcripts, listed in train.tsv and test.tsv (file <TAB> text)", "",
          [](const std::string& folder, const std::string& split, BadSamples& bad) {
            return read_manifest(std::filesystem::path(folder) / (split + ".tsv"), bad);
          })};

}  // namespace
}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include "data/speech/speech_dataset.h"

#include <algorithm>
#include <set>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "data/loader.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"
#include "tests/data/wav_file.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;

/// Windows of 4 samples every 2: 3 bins.
std::shared_ptr<const Spectrogram> small_spectrogram() {
  return std::make_shared<const Spectrogram>(
      SpectrogramRules{.sample_rate = 1000, .window_seconds = 0.004, .stride_seconds = 0.002});
}

/// Utterance i has 3 i + 4 samples and i + 1 labels, all of them i + 1.
std::shared_ptr<const SpeechDataset> make_dataset(std::int32_t count, std::size_t frame_multiple) {
  std::vector<Speech> utterances;
  for (std::int32_t i = 0; i < count; ++i) {
    Speech speech{Samples(static_cast<std::size_t>(3 * i + 4)), std::vector<std::int32_t>(i + 1, i + 1)};
    for (std::size_t s = 0; s < speech.samples.size(); ++s) speech.samples[s] = static_cast<std::int16_t>(100 * s * s);
    utterances.push_back(std::move(speech));
  }
  std::reverse(utterances.begin(), utterances.end());  // so that an utterance's number is not its rank by length
  return std::make_shared<const SpeechDataset>(std::move(utterances), Alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
                                               small_spectrogram(), frame_multiple);
}

/// Returns the utterance in row `row` of a batch: i, checked against its lists.
std::int32_t utterance_of(const Batch& batch, std::size_t row) {
  const std::int32_t begin = batch.offsets[row], end = batch.offsets[row + 1];
  const std::int32_t i = end - begin - 1;
  for (std::int32_t label = begin; label < end; ++label) CHECK(batch.labels[static_cast<std::size_t>(label)] == i + 1);
  CHECK(batch.lengths[row] == 1 + 3 * i / 2);
  return i;
}

TEST_SUITE("data") {
  TEST_CASE("a batch of speech has features, lengths and label sequences, padded with zeros") {
    const auto dataset = make_dataset(5, 4);
    CHECK(dataset->sample_shape() == Shape{8, 3});  // 7 frames, padded to a multiple of 4
    CHECK(dataset->text_of(std::vector<std::int32_t>{1, 3}) == "AC");
    EvaluationLoader loader(dataset, 5, 0, 1);
    const Batch* batch = loader.next();
    REQUIRE(batch != nullptr);
    CHECK(batch->count == 5);
    CHECK(batch->steps == 8);
    CHECK(batch->sample_size == 24);
    for (std::size_t row = 0; row < 5; ++row) {
      CHECK(utterance_of(*batch, row) == static_cast<std::int32_t>(row));  // from short to long
      const auto valid = static_cast<std::size_t>(batch->lengths[row]);
      std::vector<float> features(valid * 3);
      const std::size_t number = dataset->size() - 1 - row;
      small_spectrogram()->compute(dataset->utterance(number).samples, features);
      for (std::size_t i = 0; i < 24; ++i) {
        CHECK(batch->input_view().host()[row * 24 + i] == (i < features.size() ? features[i] : 0.0f));
      }
    }
    CHECK(loader.next() == nullptr);
  }

  TEST_CASE("in training all ranks have as many frames in a step, and no utterance twice in an epoch") {
    const auto dataset = make_dataset(26, 4);
    for (const int world : {1, 2, 3}) {
      std::vector<std::set<std::int32_t>> seen(3);
      std::vector<std::vector<std::int64_t>> steps(static_cast<std::size_t>(world));
      for (int rank = 0; rank < world; ++rank) {
        Loader loader(dataset, {.batch = 4, .rank = rank, .world = world});
        CHECK(loader.steps_per_epoch() == 26 / (4 * static_cast<std::size_t>(world)));
        for (std::size_t i = 0; i < 3 * loader.steps_per_epoch(); ++i) {
          const Batch& batch = loader.next();
          steps[static_cast<std::size_t>(rank)].push_back(batch.steps);
          CHECK(batch.steps % 4 == 0);
          for (std::size_t row = 0; row < 4; ++row) {
            CHECK(batch.lengths[row] <= batch.steps);
            CHECK(seen[batch.epoch].insert(utterance_of(batch, row)).second);
          }
        }
      }
      for (const auto& of_rank : steps) CHECK(of_rank == steps[0]);
      const std::size_t used = 26 / (4 * static_cast<std::size_t>(world)) * 4 * static_cast<std::size_t>(world);
      for (const auto& epoch : seen) CHECK(epoch.size() == used);
    }
  }

  TEST_CASE("a batch size of 0 is an error of the config for every kind of data") {
    const auto speech = make_dataset(3, 1);
    CHECK(contains(error_of<ConfigError>([&] { Loader(speech, {.batch = 0}); }), "batch size 0"));
    const DatasetSplits points = load_dataset("synthetic_xc", "", {{"train_samples", std::int64_t{3}}});
    CHECK(contains(error_of<ConfigError>([&] { Loader(points.train, {.batch = 0}); }), "batch size 0"));
  }

  TEST_CASE("batches hold utterances of similar length, in another order in every epoch") {
    const auto dataset = make_dataset(24, 1);
    Loader loader(dataset, {.batch = 6});
    std::set<std::vector<std::int32_t>> orders;
    for (int epoch = 0; epoch < 4; ++epoch) {
      std::vector<std::int32_t> shortest;
      for (std::size_t step = 0; step < 4; ++step) {
        const Batch& batch = loader.next();
        CHECK(utterance_of(batch, 5) - utterance_of(batch, 0) == 5);
        shortest.push_back(utterance_of(batch, 0));
      }
      orders.insert(shortest);
    }
    CHECK(orders.size() > 1);
  }

  TEST_CASE("evaluation reads every utterance once, for any world size") {
    const auto dataset = make_dataset(11, 4);
    for (const int world : {1, 2, 3, 15}) {
      std::set<std::int32_t> seen;
      std::size_t count = 0;
      for (int rank = 0; rank < world; ++rank) {
        EvaluationLoader loader(dataset, 2, rank, world);
        while (const Batch* batch = loader.next()) {
          for (std::size_t row = 0; row < batch->count; ++row, ++count) seen.insert(utterance_of(*batch, row));
        }
      }
      CHECK(seen.size() == 11);
      CHECK(count == 11);
    }
  }

  TEST_CASE("a bad utterance is an error that names file and line, or is left out and counted") {
    const TemporaryFolder folder;
    const auto write_text = [&](const std::string& name, const std::string& text) {
      write_bytes(folder / name, Bytes(text.begin(), text.end()));
    };
    write_bytes(folder / "good.wav", wav_file(Samples(800, 7), 16000));  // 4 frames, 2 steps
    write_bytes(folder / "slow.wav", wav_file(Samples(400, 7), 8000));
    write_bytes(folder / "long.wav", wav_file(Samples(16000, 7), 16000));
    write_text("test.tsv", "good.wav\tOK\n");
    const auto message = [&](const std::string& manifest) {
      write_text("train.tsv", manifest);
      return error_of<DataError>([&] { load_dataset("speech", folder.path(), {{"longest_seconds", 0.5}}); });
    };
    CHECK(contains(message("good.wav\tOK\nslow.wav\tOK\n"), "slow.wav: 8000 samples per second"));
    CHECK(contains(message("long.wav\tOK\n"), "long.wav: 1.00 s: longer than data.longest_seconds, 0.50 s"));
    CHECK(contains(message("good.wav\tok\n"), "train.tsv:1: 'o' in 'ok' is not in the alphabet"));
    CHECK(contains(message("good.wav\t\n"), "train.tsv:1:"));
    CHECK(contains(message("good.wav\tOK\ngood.wav\tYES\n"), "train.tsv:2:"));
    CHECK(contains(message("good.wav\tYES\n"),
                   "good.wav: 0.05 s: 2 steps (data.frames_per_step = 2) for 'YES', which needs 3: is it cut off?"));
    CHECK(contains(message("good.wav\tOO\n"), "for 'OO', which needs 3"));  // a blank between equal letters
    write_text("train.tsv", "slow.wav\tOK\ngood.wav\tOK\nlong.wav\tOK\ngood.wav\tYES\n");
    const DatasetSplits splits =
        load_dataset("speech", folder.path(), {{"longest_seconds", 0.5}, {"bad_samples", std::string("skip")}});
    CHECK(splits.train->size() == 1);
    REQUIRE(splits.notes.size() == 1);
    CHECK(contains(splits.notes[0], "3 utterances left out"));
    CHECK(contains(splits.notes[0], "slow.wav"));
    REQUIRE(::mkfifo((folder / "pipe.wav").c_str(), 0600) == 0);
    CHECK(contains(message("good.wav\tOK\npipe.wav\tOK\n"), "pipe.wav is no regular file, but a FIFO"));
    CHECK(contains(message("pipe.wav\tOK\n"), "train.tsv:1: "));
    const std::string transcript = message("good.wav\t" + std::string(5'000'000, 'A') + "\n");
    CHECK(contains(transcript, "AAA...', which needs 9999999: is it cut off?"));
    CHECK(transcript.size() < 1000);
    write_text("train.tsv", "slow.wav\tOK\n");
    CHECK(contains(error_of<DataError>([&] {
                     load_dataset("speech", folder.path(), {{"bad_samples", std::string("skip")}});
                   }),
                   "no utterance is left"));
  }

  TEST_CASE("the real AN4 loads with features of 161 bins") {
    const std::filesystem::path folder = real_data("an4");
    if (folder.empty()) return;
    const DatasetSplits splits = load_dataset("an4", folder, {{"train_limit", std::int64_t{40}}});
    CHECK(splits.train->size() == 40);
    CHECK(splits.test->size() == 130);
    CHECK(splits.train->classes() == 29);
    CHECK(splits.test->sample_shape()[1] == 161);
    EvaluationLoader loader(splits.test, 8, 0, 1);
    const Batch* batch = loader.next();
    REQUIRE(batch != nullptr);
    CHECK(batch->steps % 64 == 0);
    CHECK(batch->labels.size() == static_cast<std::size_t>(batch->offsets.back()));
  }
}

}  // namespace
}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
// An epoch that goes on with other numbers of workers: every sample once, for every kind of training batches.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "data/loader.h"
#include "data/speech/speech_dataset.h"
#include "data/text/token_dataset.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

constexpr std::size_t kBatch = 2;
constexpr std::uint64_t kEpoch = 3;

/// The numbers of workers of an epoch's parts, and the steps of each; the last part goes on to the end.
struct Part {
  int world;
  std::uint64_t steps;
};
using Parts = std::vector<Part>;

std::size_t per_step(const Part& part) {
  return kBatch * static_cast<std::size_t>(part.world);
}

/// Appends the identities of a batch's samples: of text its tokens.
using Identify = std::function<void(const Batch&, std::vector<std::int64_t>&)>;

/// Returns how often each sample comes up in kEpoch, over all ranks of all parts.
std::map<std::int64_t, int> count(const Dataset& dataset, const Parts& parts, Remainder remainder,
                                  const Identify& identify) {
  std::map<std::int64_t, int> counts;
  std::vector<EpochPart> done;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::uint64_t steps = 0;
    for (int rank = 0; rank < parts[p].world; ++rank) {
      const auto source =
          dataset.training({.batch = kBatch, .seed = 7, .rank = rank, .world = parts[p].world, .remainder = remainder});
      const std::size_t left = done.empty() ? source->steps_per_epoch() : source->continue_epoch(kEpoch, done);
      REQUIRE(left <= source->steps_per_epoch());
      const std::size_t first = source->steps_per_epoch() - left;
      steps = p + 1 == parts.size() ? left : std::min<std::uint64_t>(parts[p].steps, left);
      Batch batch = source->make_batch(MemoryPlace());
      std::vector<std::int64_t> samples;
      for (std::size_t step = first; step < first + steps; ++step) {
        source->fill(kEpoch, step, batch);
        REQUIRE(batch.count == kBatch);
        identify(batch, samples);
      }
      for (const std::int64_t sample : samples) ++counts[sample];
    }
    done.push_back({kBatch * static_cast<std::uint64_t>(parts[p].world), steps});
  }
  return counts;
}

int max_repeated(const std::map<std::int64_t, int>& counts) {
  int max = 0;
  for (const auto& [sample, times] : counts) max = std::max(max, times);
  return max;
}

std::size_t drawn(const std::map<std::int64_t, int>& counts) {
  std::size_t sum = 0;
  for (const auto& [sample, times] : counts) sum += static_cast<std::size_t>(times);
  return sum;
}

/// All changes of the number of workers, once and twice in an epoch.
void for_each_change(const std::function<void(const Parts&)>& body) {
  const std::vector<int> worlds{1, 2, 3, 4, 8};
  for (const int first : worlds) {
    for (const int second : worlds) {
      body({{first, 2}, {second, 0}});
      for (const int third : worlds) body({{first, 1}, {second, 2}, {third, 0}});
    }
  }
}

/// Points that differ in their values.
DatasetSplits points_of(std::int64_t samples) {
  return load_dataset("synthetic_xc", "", {{"train_samples", samples}, {"test_samples", std::int64_t{1}}});
}

/// Returns the number of a sample by its values, which all differ.
Identify by_values(std::map<std::vector<float>, std::int64_t>& known) {
  return [&known](const Batch& batch, std::vector<std::int64_t>& samples) {
    for (std::size_t row = 0; row < batch.count; ++row) {
      const auto values = batch.input_view().host().subspan(row * batch.sample_size, batch.sample_size);
      const auto number = static_cast<std::int64_t>(known.size());
      samples.push_back(known.try_emplace({values.begin(), values.end()}, number).first->second);
    }
  };
}

/// Checks both rules of the remainder for samples that are drawn one by one. @param max_padded samples that padding
/// may repeat, and one more.
void check_samples(const Dataset& dataset, const Parts& parts, const Identify& identify, std::size_t max_padded) {
  const auto dropped = count(dataset, parts, Remainder::kDrop, identify);
  REQUIRE(max_repeated(dropped) == 1);
  REQUIRE(dropped.size() + per_step(parts.back()) > dataset.size());
  const auto padded = count(dataset, parts, Remainder::kPad, identify);
  REQUIRE(padded.size() == dataset.size());
  REQUIRE(drawn(padded) < dataset.size() + max_padded);
}

/// Utterance i has i + 1 labels.
std::shared_ptr<const SpeechDataset> utterances(std::int32_t count) {
  std::vector<Speech> all;
  for (std::int32_t i = 0; i < count; ++i) {
    const auto length = static_cast<std::size_t>(4 + 5 * i % 7);
    all.push_back({Samples(length), std::vector<std::int32_t>(static_cast<std::size_t>(i) + 1, 1)});
  }
  return std::make_shared<const SpeechDataset>(
      std::move(all), Alphabet("A"),
      std::make_shared<const Spectrogram>(
          SpectrogramRules{.sample_rate = 1000, .window_seconds = 0.004, .stride_seconds = 0.002}),
      1);
}

void identify_utterances(const Batch& batch, std::vector<std::int64_t>& samples) {
  for (std::size_t row = 0; row < batch.count; ++row)
    samples.push_back(batch.offsets[row + 1] - batch.offsets[row] - 1);
}

/// Token i is i.
std::shared_ptr<const TokenDataset> counting_text(int size, std::int64_t window) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(size));
  std::iota(tokens.begin(), tokens.end(), 0);
  return std::make_shared<const TokenDataset>(std::move(tokens), size, window);
}

void identify_tokens(const Batch& batch, std::vector<std::int64_t>& samples) {
  for (std::size_t i = 0; i < batch.count * batch.sample_size; ++i) {
    const auto token = static_cast<std::int64_t>(batch.input_view().host()[i]);
    REQUIRE(batch.labels[i] == token + 1);  // the next one in the text, wherever rows were cut
    samples.push_back(token);
  }
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("every sample comes once in an epoch in which the number of workers changes, once or twice") {
    std::map<std::vector<float>, std::int64_t> known;
    for (const std::int64_t samples : {48, 53}) {
      known.clear();
      const DatasetSplits points = points_of(samples);
      for_each_change(
          [&](const Parts& parts) { check_samples(*points.train, parts, by_values(known), per_step(parts.back())); });
      REQUIRE(known.size() == static_cast<std::size_t>(samples));
    }
  }

  TEST_CASE("every utterance comes once in an epoch in which the number of workers changes, once or twice") {
    const auto speech = utterances(53);
    for_each_change([&](const Parts& parts) {
      // Steps are shuffled: those that are padded may come before the next change.
      std::size_t max_padded = 0;
      for (const Part& part : parts) max_padded += per_step(part);
      check_samples(*speech, parts, identify_utterances, max_padded);
    });
  }

  TEST_CASE("every token comes once in an epoch in which the number of rows changes, once or twice") {
    const std::int64_t window = 3;
    const auto text = counting_text(211, window);
    for_each_change([&](const Parts& parts) {
      const auto counts = count(*text, parts, Remainder::kDrop, identify_tokens);
      REQUIRE(max_repeated(counts) == 1);
      // What fills no window in every strip is dropped, as in an epoch of equal steps.
      REQUIRE(counts.size() + per_step(parts.back()) * window > 210);
    });
  }

  TEST_CASE("the rest of an epoch that fills no step is dropped, or padded") {
    std::map<std::vector<float>, std::int64_t> known;
    const DatasetSplits points = points_of(20);
    const Parts parts{{1, 8}, {8, 0}};  // 4 samples are left, and a step takes 16
    CHECK(count(*points.train, parts, Remainder::kDrop, by_values(known)).size() == 16);
    const auto padded = count(*points.train, parts, Remainder::kPad, by_values(known));
    CHECK(padded.size() == 20);
    CHECK(drawn(padded) == 32);
    CHECK(max_repeated(padded) == 2);
  }

  TEST_CASE("the other epochs do not know that one was continued") {
    const auto speech = utterances(20);
    for (const std::uint64_t epoch : {kEpoch - 1, kEpoch + 1}) {
      const auto source = speech->training({.batch = kBatch, .seed = 7, .world = 3});
      const auto plain = speech->training({.batch = kBatch, .seed = 7, .world = 3});
      CHECK(source->continue_epoch(kEpoch, std::vector<EpochPart>{{2, 2}}) == 2);
      Batch a = source->make_batch(MemoryPlace()), b = plain->make_batch(MemoryPlace());
      for (std::uint64_t step = 0; step < source->steps_per_epoch(); ++step) {
        source->fill(epoch, step, a);
        plain->fill(epoch, step, b);
        CHECK(a.labels == b.labels);
      }
    }
  }

  TEST_CASE("rows of text begin anew behind a change, and only there") {
    const auto text = counting_text(101, 5);
    const auto source = text->training({.batch = kBatch, .world = 2});  // 4 strips of 25 tokens: 5 steps
    const std::vector<EpochPart> earlier{{2, 4}};                       // of 2 strips of 50 tokens 20 each are read
    REQUIRE(source->continue_epoch(0, earlier) == 3);                   // 60 tokens: 4 strips of 15
    Batch batch = source->make_batch(MemoryPlace());
    for (std::uint64_t step = 2; step < 5; ++step) {
      source->fill(0, step, batch);
      CHECK(batch.begins == (step == 2));
      CHECK(batch.input_view().host()[0] == static_cast<float>(20 + 5 * (step - 2)));
      CHECK(batch.input_view().host()[5] == static_cast<float>(35 + 5 * (step - 2)));
    }
    CHECK_THROWS_AS(source->fill(0, 1, batch), Error);
  }

  TEST_CASE("a loader goes on with the rest of an epoch, then with the next one") {
    const auto text = counting_text(101, 5);
    Loader loader(text, {.batch = kBatch, .world = 2});
    loader.next();
    const std::vector<EpochPart> earlier{{2, 4}};
    REQUIRE(loader.continue_epoch(4, earlier) == 3);
    loader.seek(4, 2);
    for (const std::uint64_t step : {2, 3, 4, 5, 6}) {
      const Batch& batch = loader.next();
      CHECK(batch.epoch == 4 + step / 5);
      CHECK(batch.step == step % 5);
      CHECK(batch.begins == (step == 2 || step == 5));
    }
  }
}

}  // namespace dragonn::data

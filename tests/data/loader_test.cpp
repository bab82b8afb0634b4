// SPDX-License-Identifier: MIT
#include "data/loader.h"

#include <memory>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/data/dataset_fixture.h"
#include "tests/support/allocation_counter.h"

namespace dragonn::data {
namespace {

/// Sample i is [i, a draw of its augmentation stream or -1], its label i mod 10.
class CountingDataset final : public SampleDataset {
 public:
  explicit CountingDataset(std::size_t size, std::size_t bad = SIZE_MAX) : size_(size), bad_(bad) {}
  std::size_t size() const override { return size_; }
  Shape sample_shape() const override { return {1, 1, 2}; }
  int classes() const override { return 10; }
  void read(std::size_t index, Rng* augmentation, std::span<float> sample,
            std::vector<std::int32_t>& labels) const override {
    if (index == bad_) throw std::runtime_error("sample cannot be read");
    sample[0] = static_cast<float>(index);
    sample[1] = augmentation != nullptr ? augmentation->uniform() : -1.0f;
    labels.push_back(static_cast<std::int32_t>(index % 10));
  }

 private:
  std::size_t size_;
  std::size_t bad_;
};

/// A batch by value.
struct Seen {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  std::uint64_t epoch, step;
  bool operator==(const Seen&) const = default;
};

Seen copy(const Batch& batch) {
  const auto inputs = batch.input_view().host();
  const auto labels = batch.label_view().host();
  return {{inputs.begin(), inputs.end()}, {labels.begin(), labels.end()}, batch.epoch, batch.step};
}

BatchRules rules_of(std::size_t batch, int rank = 0, int world = 1) {
  return {.batch = batch, .rank = rank, .world = world};
}

TEST_SUITE("data") {
  TEST_CASE("batches come in order, epoch after epoch, with their labels") {
    Loader loader(std::make_shared<CountingDataset>(20), rules_of(6));
    REQUIRE(loader.steps_per_epoch() == 3);
    for (std::uint64_t i = 0; i < 10; ++i) {
      const Batch& batch = loader.next();
      CHECK(batch.epoch == i / 3);
      CHECK(batch.step == i % 3);
      CHECK(batch.count == 6);
      CHECK(batch.inputs.size() == 12);
      for (std::size_t row = 0; row < 6; ++row) {
        CHECK(batch.labels[row] == static_cast<std::int32_t>(batch.inputs.host()[2 * row]) % 10);
      }
    }
  }

  TEST_CASE("a batch stays as it is until the next call") {
    Loader loader(std::make_shared<CountingDataset>(1000), rules_of(10));
    for (int i = 0; i < 50; ++i) {
      const Batch& batch = loader.next();
      const Seen before = copy(batch);
      for (int spin = 0; spin < 100; ++spin) std::this_thread::yield();  // time for the thread to run ahead
      CHECK(copy(batch) == before);
    }
  }

  TEST_CASE("augmentation is keyed by epoch and sample, not by rank") {
    const auto dataset = std::make_shared<CountingDataset>(24);
    std::vector<float> one_world(24), three_world(24);
    Loader one(dataset, rules_of(24));
    const Seen whole = copy(one.next());
    for (std::size_t row = 0; row < 24; ++row) {
      one_world[static_cast<std::size_t>(whole.inputs[2 * row])] = whole.inputs[2 * row + 1];
    }
    for (int rank = 0; rank < 3; ++rank) {
      Loader loader(dataset, rules_of(8, rank, 3));
      const Seen part = copy(loader.next());
      for (std::size_t row = 0; row < 8; ++row) {
        three_world[static_cast<std::size_t>(part.inputs[2 * row])] = part.inputs[2 * row + 1];
      }
    }
    CHECK(one_world == three_world);
    std::vector<float> second_epoch(24);
    const Seen again = copy(one.next());
    for (std::size_t row = 0; row < 24; ++row) {
      second_epoch[static_cast<std::size_t>(again.inputs[2 * row])] = again.inputs[2 * row + 1];
    }
    CHECK(second_epoch != one_world);
  }

  TEST_CASE("seek gives the batches of the uninterrupted run") {
    const auto dataset = std::make_shared<CountingDataset>(103);
    Loader whole(dataset, rules_of(4, 1, 3));
    std::vector<Seen> expected;
    for (int i = 0; i < 20; ++i) expected.push_back(copy(whole.next()));
    for (const std::size_t position : {0, 3, 7, 8, 15}) {
      Loader resumed(dataset, rules_of(4, 1, 3));
      if (position % 2 == 1) resumed.next();  // a seek may come at any time
      resumed.seek(position / whole.steps_per_epoch(), position % whole.steps_per_epoch());
      for (std::size_t i = position; i < 20; ++i) CHECK(copy(resumed.next()) == expected[i]);
    }
    CHECK_THROWS_AS(whole.seek(0, whole.steps_per_epoch()), Error);
  }

  TEST_CASE("seeking back and forth never mixes batches up") {
    Loader loader(std::make_shared<CountingDataset>(1000), rules_of(10));
    for (std::uint64_t i = 0; i < 200; ++i) {
      loader.seek(i % 7, i % 100);
      const Batch& batch = loader.next();
      CHECK(batch.epoch == i % 7);
      CHECK(batch.step == i % 100);
    }
  }

  TEST_CASE("an error of the thread comes out of next, after the batches before it") {
    const auto dataset = std::make_shared<CountingDataset>(20, 13);
    Loader loader(dataset, rules_of(5));
    std::size_t good = 0;
    std::string message;
    for (int i = 0; i < 4 && message.empty(); ++i) {
      message = error_of<std::runtime_error>([&] { loader.next(); });
      if (message == "no error") {
        message.clear();
        ++good;
      }
    }
    CHECK(message == "sample cannot be read");
    CHECK(good < 4);
    CHECK(error_of<std::runtime_error>([&] { loader.next(); }) == "sample cannot be read");
  }

  TEST_CASE("a loader that nobody reads from ends cleanly") {
    for (int i = 0; i < 20; ++i) Loader loader(std::make_shared<CountingDataset>(100), rules_of(10));
  }

  TEST_CASE("a loader in motion allocates nothing") {
    Loader loader(std::make_shared<CountingDataset>(100), rules_of(10));
    loader.next();
    loader.next();
    const testing::AllocationCounter counter;
    const std::size_t before = counter.count();
    for (int i = 0; i < 100; ++i) loader.next();
    CHECK(counter.count() == before);
  }

  TEST_CASE("evaluation reads every sample once, in order and without augmentation") {
    const auto dataset = std::make_shared<CountingDataset>(23);
    for (const int world : {1, 2, 3, 5, 30}) {
      std::vector<float> seen;
      for (int rank = 0; rank < world; ++rank) {
        EvaluationLoader loader(dataset, 4, rank, world);
        for (int pass = 0; pass < 2; ++pass) {  // a second pass gives the same
          std::size_t count = 0;
          while (const Batch* batch = loader.next()) {
            count += batch->count;
            for (std::size_t row = 0; row < batch->count; ++row) {
              CHECK(batch->inputs.host()[2 * row + 1] == -1.0f);
              if (pass == 0) seen.push_back(batch->inputs.host()[2 * row]);
            }
          }
          CHECK(count == evaluation_shard(23, rank, world).size());
          loader.restart();
        }
      }
      REQUIRE(seen.size() == 23);
      for (std::size_t i = 0; i < 23; ++i) CHECK(seen[i] == static_cast<float>(i));
    }
    CHECK_THROWS_AS(EvaluationLoader(dataset, 0, 0, 1), Error);
  }
}

}  // namespace
}  // namespace dragonn::data

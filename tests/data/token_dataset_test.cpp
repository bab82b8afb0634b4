// SPDX-License-Identifier: MIT
#include "data/text/token_dataset.h"

#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/rng.h"
#include "data/loader.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;

/// Token i is i.
std::shared_ptr<const TokenDataset> counting_text(int size, std::int64_t window) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(size));
  std::iota(tokens.begin(), tokens.end(), 0);
  return std::make_shared<const TokenDataset>(std::move(tokens), size, window);
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  write_bytes(path, Bytes(text.begin(), text.end()));
}

TEST_SUITE("data") {
  TEST_CASE("rows of successive batches are successive windows of a strip, labelled with the next token") {
    const auto text = counting_text(100, 5);
    // 99 predictions in 2 ranks x 3 rows: strips of 16 tokens, 3 windows each.
    for (int rank = 0; rank < 2; ++rank) {
      Loader loader(text, {.batch = 3, .rank = rank, .world = 2});
      REQUIRE(loader.steps_per_epoch() == 3);
      for (std::uint64_t step = 0; step < 7; ++step) {
        const Batch& batch = loader.next();
        CHECK(batch.begins == (step % 3 == 0));
        CHECK(batch.input_view().size() == 15);
        for (std::size_t row = 0; row < 3; ++row) {
          for (std::size_t i = 0; i < 5; ++i) {
            const std::size_t token = (static_cast<std::size_t>(rank) * 3 + row) * 16 + step % 3 * 5 + i;
            CHECK(batch.input_view().host()[row * 5 + i] == static_cast<float>(token));
            CHECK(batch.labels[row * 5 + i] == static_cast<std::int32_t>(token) + 1);
          }
        }
      }
    }
  }

  TEST_CASE("evaluation predicts every token but the first once, for any number of ranks and rows") {
    for (const int size : {2, 7, 100}) {
      const auto text = counting_text(size, 5);
      for (const int world : {1, 2, 3, 8}) {
        for (const std::size_t rows : {1, 4}) {
          CAPTURE(size);
          CAPTURE(world);
          CAPTURE(rows);
          std::map<std::int32_t, int> predicted;
          for (int rank = 0; rank < world; ++rank) {
            EvaluationLoader loader(text, rows, rank, world);
            while (const Batch* batch = loader.next()) {
              CHECK(batch->count == rows);
              CHECK(batch->begins == (batch->step == 0));
              for (std::size_t i = 0; i < batch->labels.size(); ++i) {
                if (batch->labels[i] == kIgnoredLabel) continue;
                ++predicted[batch->labels[i]];
                CHECK(batch->input_view().host()[i] + 1 == static_cast<float>(batch->labels[i]));
              }
            }
          }
          REQUIRE(predicted.size() == static_cast<std::size_t>(size - 1));
          for (const auto& [token, times] : predicted) CHECK(times == 1);
        }
      }
    }
  }

  TEST_CASE("a text that is too short for the batch is an error that says so") {
    const auto text = counting_text(20, 5);
    CHECK(contains(error_of<ConfigError>([&] { Loader(text, {.batch = 4}); }), "the text has 20 tokens"));
    CHECK(Loader(text, {.batch = 3}).steps_per_epoch() == 1);
  }

  TEST_CASE("text files become a vocabulary of the training text and two running texts") {
    const TemporaryFolder folder;
    write_text(folder / "train.txt", "a b a\nb c\n");
    write_text(folder / "valid.txt", "a d\n");
    const DatasetSplits splits = load_dataset("text", folder.path(), {{"window", std::int64_t{2}}});
    CHECK(splits.train->classes() == 5);  // <unk> a b <eos> c
    CHECK(splits.train->size() == 7);
    CHECK(splits.test->size() == 3);
    CHECK(splits.train->sample_shape() == Shape{2});
    CHECK(splits.train->target_kind() == TargetKind::kClassPerStep);
    REQUIRE(splits.notes.size() == 1);
    CHECK(contains(splits.notes[0], "vocabulary 5, 3 evaluation tokens, 33.33 % of them unknown"));
    const DatasetSplits rare = load_dataset("text", folder.path(), {{"minimum_count", std::int64_t{2}}});
    CHECK(rare.train->classes() == 4);
  }

  TEST_CASE("a text without a test file is evaluated on its end") {
    const TemporaryFolder folder;
    write_text(folder / "input.txt", "0123456789012345678\xC3\xA9");
    const DatasetSplits splits = load_dataset("tinyshakespeare", folder.path());
    CHECK(splits.train->size() == 18);
    CHECK(splits.test->size() == 2);
    const DatasetSplits inside = load_dataset("tinyshakespeare", folder.path(), {{"held_out", 0.04}});
    CHECK(inside.train->size() == 19);  // the cut is not inside the last character
    CHECK(inside.test->size() == 1);
  }

  TEST_CASE("a folder or file whose name no file system takes is an error that shows its beginning") {
    const TemporaryFolder folder;
    const std::string huge(5'000'000, 'x');
    for (const char* name : {"text", "mnist"}) {
      const std::string message = error_of<ConfigError>([&] { load_dataset(name, huge); });
      CHECK(contains(message, "xxx"));
      CHECK(message.size() < 10'000);
    }
    CHECK(contains(error_of<ConfigError>([&] {
                     load_dataset("text", folder.path(), {{"train_file", huge}});
                   }),
                   "no such file (data.train_file)"));
  }

  TEST_CASE("a missing, empty or damaged text is an error that names the file") {
    const TemporaryFolder folder;
    CHECK(contains(error_of<ConfigError>([&] { load_dataset("text", folder / "none"); }), "no such folder"));
    CHECK(contains(error_of<ConfigError>([&] { load_dataset("ptb", folder.path()); }), "ptb.train.txt: no such file"));
    write_text(folder / "train.txt", "a\n");
    write_text(folder / "valid.txt", "");
    CHECK(contains(error_of<DataError>([&] { load_dataset("text", folder.path()); }), "valid.txt: an empty file"));
    write_text(folder / "valid.txt", "a\nb \x80\n");
    CHECK(contains(error_of<DataError>([&] { load_dataset("text", folder.path()); }), "valid.txt:2: byte 0x80"));
  }

  TEST_CASE("masked text hides a share of each window and labels what it hides") {
    const TemporaryFolder folder;
    std::string words;
    for (int i = 0; i < 2000; ++i) words += i % 2 == 0 ? "a " : "b ";
    write_text(folder / "train.txt", words);
    write_text(folder / "valid.txt", words);
    const DatasetSplits splits = load_dataset("masked_text", folder.path(), {{"window", std::int64_t{10}}});
    constexpr std::int32_t kMask = 4;  // behind <unk> a b <eos>
    CHECK(splits.train->classes() == kMask + 1);
    CHECK(splits.train->size() == 200);
    std::size_t hidden = 0, masked = 0;
    for (std::size_t window = 0; window < 200; ++window) {
      Rng rng(1, "test", {window});
      const Sample sample = read(*splits.train, window, &rng);
      REQUIRE(sample.labels.size() == 10);
      std::size_t in_window = 0;
      for (std::size_t i = 0; i < 10; ++i) {
        const std::int32_t token = i % 2 == 0 ? 1 : 2;
        if (sample.labels[i] == kIgnoredLabel) {
          CHECK(sample.values[i] == static_cast<float>(token));
          continue;
        }
        CHECK(sample.labels[i] == token);
        ++in_window;
        masked += sample.values[i] == static_cast<float>(kMask) ? 1 : 0;
      }
      CHECK(in_window >= 1);
      hidden += in_window;
    }
    // 1 - 0.85 0.9 of 2000 tokens: a token is drawn with 0.15, or is the one that is certain.
    CHECK(std::abs(static_cast<double>(hidden) - 470) < 70);
    CHECK(std::abs(static_cast<double>(masked) / static_cast<double>(hidden) - 0.8) < 0.06);
    Rng one(1), two(2);
    CHECK(read(*splits.train, 3, &one).values != read(*splits.train, 3, &two).values);
    CHECK(read(*splits.test, 3).values == read(*splits.test, 3).values);
    CHECK(contains(error_of<ConfigError>([&] {
                     load_dataset("masked_text", folder.path(), {{"window", std::int64_t{5000}}});
                   }),
                   "has no window of 5000"));
  }
}

}  // namespace
}  // namespace dragonn::data

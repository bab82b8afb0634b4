// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <malloc.h>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "data/loader.h"
#include "data/share_items.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"
#include "tests/data/image_files.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;

/// Three classes, with 5, 6 and 7 training images and 3, 3, 3 for evaluation; one of each class is a PNG.
struct ImageTree {
  ImageTree() {
    int seed = 0;
    for (const char* split : {"train", "val"}) {
      for (int label = 0; label < 3; ++label) {
        const std::filesystem::path place = folder / split / ("class" + std::to_string(label));
        std::filesystem::create_directories(place);
        const int count = split == std::string("train") ? 5 + label : 3;
        for (int i = 0; i < count; ++i, ++seed) {
          const int height = 20 + seed % 5, width = 24 + seed % 7;
          const Bytes pixels = smooth_pixels(height, width, 3, seed);
          write_bytes(
              place / (std::to_string(i) + (i == 1 ? ".PNG" : ".jpg")),
              i == 1 ? png_bytes(pixels, height, width, PNG_COLOR_TYPE_RGB) : jpeg_bytes(pixels, height, width));
        }
        write_bytes(place / "notes.txt", {1, 2, 3});  // ignored
      }
    }
  }
  DatasetSplits load(Overrides overrides = {}) const {
    overrides.emplace_back("side", std::int64_t{16});
    overrides.emplace_back("evaluation_resize", std::int64_t{18});
    return load_dataset("image_folder", folder.path(), overrides);
  }
  void truncate(const std::string& file) const {
    std::filesystem::resize_file(folder / file, std::filesystem::file_size(folder / file) - 20);
  }

  TemporaryFolder folder;
};

struct Seen {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  bool operator==(const Seen&) const = default;
};

Seen copy(const Batch& batch) {
  const auto inputs = batch.input_view().host();
  return {{inputs.begin(), inputs.end()}, batch.labels};
}

std::vector<Seen> training_batches(const DatasetSplits& splits, const BatchRules& rules, int count) {
  Loader loader(splits.train, rules);
  std::vector<Seen> seen;
  for (int i = 0; i < count; ++i) seen.push_back(copy(loader.next()));
  return seen;
}

/// All evaluation samples of all ranks, one after the other.
Seen evaluated(const DatasetSplits& splits, int world) {
  Seen all;
  for (int rank = 0; rank < world; ++rank) {
    EvaluationLoader loader(splits.test, 2, rank, world);
    while (const Batch* batch = loader.next()) {
      const Seen part = copy(*batch);
      all.inputs.insert(all.inputs.end(), part.inputs.begin(), part.inputs.end());
      all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
    }
  }
  return all;
}

TEST_SUITE("data") {
  TEST_CASE("a folder of images is read by class, in floats, and cut to one size") {
    const ImageTree tree;
    const DatasetSplits splits = tree.load({{"normalize", false}});
    CHECK(splits.train->size() == 18);
    CHECK(splits.test->size() == 9);
    CHECK(splits.train->classes() == 3);
    CHECK(splits.train->sample_shape() == Shape{16, 16, 3});
    const Seen all = evaluated(splits, 1);
    CHECK(all.labels == std::vector<std::int32_t>{0, 0, 0, 1, 1, 1, 2, 2, 2});
    for (const float value : all.inputs) CHECK((value >= 0 && value <= 1));
    const Seen normalized = evaluated(tree.load(), 1);
    CHECK(normalized.inputs[0] == (all.inputs[0] - 0.485f) / 0.229f);
    CHECK(normalized.inputs[2] == (all.inputs[2] - 0.406f) / 0.225f);
    CHECK(tree.load({{"train_limit", std::int64_t{6}}}).train->size() == 6);
    CHECK(evaluated(tree.load({{"test_limit", std::int64_t{3}}}), 1).labels == std::vector<std::int32_t>{0, 1, 2});
  }

  TEST_CASE("batches of images do not depend on threads, and a seek repeats them") {
    const ImageTree tree;
    const BatchRules rules{.batch = 4, .rank = 1, .world = 2};
    const std::vector<Seen> one = training_batches(tree.load({{"decode_threads", std::int64_t{1}}}), rules, 6);
    const DatasetSplits splits = tree.load({{"decode_threads", std::int64_t{5}}});
    CHECK(training_batches(splits, rules, 6) == one);
    CHECK(one[0] != one[2]);  // the next epoch
    Loader resumed(splits.train, rules);
    resumed.seek(1, 1);
    CHECK(copy(resumed.next()) == one[3]);
    CHECK(copy(resumed.next()) == one[4]);
  }

  TEST_CASE("every evaluation image is read once for any number of ranks") {
    const ImageTree tree;
    const DatasetSplits splits = tree.load();
    const Seen all = evaluated(splits, 1);
    for (const int world : {2, 3, 5, 16}) CHECK(evaluated(splits, world) == all);
  }

  TEST_CASE("a bad image stops the run, or the next one takes its place in training") {
    const ImageTree tree;
    const std::vector<Seen> good = training_batches(tree.load(), {.batch = 18}, 1);
    tree.truncate("train/class1/0.jpg");
    tree.truncate("val/class0/2.jpg");
    const std::string message = error_of<DataError>([&] { training_batches(tree.load(), {.batch = 18}, 1); });
    CHECK(contains(message, "train/class1/0.jpg: truncated: it ends at byte"));
    CHECK(contains(error_of<DataError>([&] { evaluated(tree.load(), 1); }), "val/class0/2.jpg: truncated"));

    const DatasetSplits skipping = tree.load({{"bad_samples", std::string("skip")}});
    const auto seen = training_batches(skipping, {.batch = 18}, 2);
    CHECK(seen[0].labels == good[0].labels);  // the next is of its class
    const Seen left = evaluated(skipping, 1);
    CHECK(left.labels == std::vector<std::int32_t>{0, 0, 1, 1, 1, 2, 2, 2});
    CHECK(evaluated(skipping, 9) == left);  // some ranks have none
  }

  TEST_CASE("a folder without images of a class, or with a class of its own, is an error") {
    const ImageTree tree;
    CHECK(contains(error_of<ConfigError>([] { load_dataset("image_folder", "/nowhere"); }), "data.path must name"));
    const auto message = [&](const std::string& extra) {
      std::filesystem::create_directories(tree.folder / extra);
      const std::string text = error_of<DataError>([&] { tree.load(); });
      std::filesystem::remove_all(tree.folder / extra);
      return text;
    };
    CHECK(contains(message("train/class9"), "train/class9: an empty class: it has no .jpg, .jpeg or .png"));
    std::filesystem::create_directories(tree.folder / "val/class9");
    std::filesystem::copy_file(tree.folder / "val/class0/0.jpg", tree.folder / "val/class9/0.jpg");
    CHECK(contains(message("val/class9"), "val/class9: a class that"));
    CHECK(contains(error_of<ConfigError>([&] {
                     tree.load({{"mean", std::vector<double>{0.5}}});
                   }),
                   "data.mean: 1 numbers: should be 3"));
    std::filesystem::remove_all(tree.folder / "val");
    CHECK(contains(error_of<ConfigError>([&] { tree.load(); }), "val: no such folder"));
  }

  TEST_CASE("evaluation sees 7/8 of the shorter side unless a key says else, and little of it with a warning") {
    // A black image with a white frame: the pixels of the middle are the same in both classes.
    const TemporaryFolder folder;
    constexpr int kSide = 224, kFrame = 56;
    for (const char* split : {"train", "val"}) {
      for (const bool framed : {false, true}) {
        Bytes pixels;
        for (int y = 0; y < kSide; ++y) {
          for (int x = 0; x < kSide; ++x) {
            const bool white = framed && std::min({x, y, kSide - 1 - x, kSide - 1 - y}) < kFrame;
            pixels.insert(pixels.end(), 3, white ? 255 : 0);
          }
        }
        const std::filesystem::path place = folder / split / (framed ? "framed" : "black");
        std::filesystem::create_directories(place);
        write_bytes(place / "0.png", png_bytes(pixels, kSide, kSide, PNG_COLOR_TYPE_RGB));
      }
    }
    const auto load = [&](std::int64_t side, std::int64_t resize) {
      return load_dataset("image_folder", folder.path(),
                          {{"side", side}, {"evaluation_resize", resize}, {"normalize", false}});
    };
    const auto white_share = [&](const DatasetSplits& splits) {  // of the framed image
      const Seen all = evaluated(splits, 1);
      REQUIRE(all.labels == std::vector<std::int32_t>{0, 1});
      double sum = 0;
      for (std::size_t i = all.inputs.size() / 2; i < all.inputs.size(); ++i) sum += all.inputs[i];
      return sum / (static_cast<double>(all.inputs.size()) / 2);
    };
    const DatasetSplits fitting = load(32, 0);
    CHECK(fitting.warnings.empty());
    CHECK(std::abs(white_share(fitting) - (1 - std::pow(37 / 2.0 / 32, 2))) < 0.03);  // 37 pixels, half of them white
    CHECK(evaluated(fitting, 1) == evaluated(load(32, 37), 1));
    CHECK(evaluated(load(224, 0), 1) == evaluated(load(224, 256), 1));
    CHECK(evaluated(load(299, 0), 1) == evaluated(load(299, 342), 1));
    CHECK(evaluated(load(1, 0), 1) == evaluated(load(1, 1), 1));
    CHECK(load(32, 64).warnings.empty());
    const DatasetSplits middle = load(32, 256);
    CHECK(white_share(middle) == 0);
    REQUIRE(middle.warnings.size() == 1);
    CHECK(contains(middle.warnings[0],
                   "data.evaluation_resize = 256: evaluation sees the middle 32 pixels (data.side) of"));
    CHECK(contains(error_of<ConfigError>([&] { load(32, 31); }),
                   "data.evaluation_resize = 31: should be 0 (8/7 of data.side), or at least data.side, 32"));
  }

  TEST_CASE("a pipe in place of an image or of a cache is refused instead of waited for") {
    const ImageTree tree;
    std::filesystem::remove(tree.folder / "val/class0/2.jpg");
    REQUIRE(::mkfifo((tree.folder / "val/class0/2.jpg").c_str(), 0600) == 0);
    CHECK(contains(error_of<DataError>([&] { evaluated(tree.load(), 1); }), "2.jpg is no regular file, but a FIFO"));
    CHECK(evaluated(tree.load({{"bad_samples", std::string("skip")}}), 1).labels.size() == 8);
    for (const char* name : {"cache", "other.part"}) REQUIRE(::mkfifo((tree.folder / name).c_str(), 0600) == 0);
    for (const char* name : {"cache", "other"}) {
      const std::string cache = tree.folder / name;
      CHECK(contains(error_of<ConfigError>([&] { tree.load({{"cache", cache}}); }), "is no regular file, but a FIFO"));
    }
  }

  TEST_CASE("a cache gives the bits of the files in evaluation, and is made once") {
    const ImageTree tree;
    const std::string cache = tree.folder / "cache";
    const Seen expected = evaluated(tree.load(), 1);
    CHECK(evaluated(tree.load({{"cache", cache}, {"decode_threads", std::int64_t{3}}}), 1) == expected);
    const auto made = std::filesystem::last_write_time(cache);
    const DatasetSplits again = tree.load({{"cache", cache}});
    CHECK(std::filesystem::last_write_time(cache) == made);
    CHECK(evaluated(again, 2) == expected);
    const BatchRules rules{.batch = 3};
    CHECK(training_batches(again, rules, 8) == training_batches(again, rules, 8));
    CHECK(contains(error_of<ConfigError>([&] {
                     load_dataset("image_folder", tree.folder.path(), {{"cache", cache}});
                   }),
                   "cache: a cache of 27 images with shorter sides of 18 pixels, not of the 27 images"));
  }

  TEST_CASE("a cache knows damaged images, and a damaged cache is an error") {
    const ImageTree tree;
    tree.truncate("val/class0/2.jpg");
    const std::string cache = tree.folder / "cache";
    CHECK(contains(error_of<DataError>([&] { tree.load({{"cache", cache}}); }), "val/class0/2.jpg: truncated"));
    CHECK(!std::filesystem::exists(cache));
    const Overrides skip{{"cache", cache}, {"bad_samples", std::string("skip")}};
    const DatasetSplits splits = tree.load(skip);
    CHECK(contains(splits.notes.at(0), "1 images left out (data.bad_samples); the first: "));
    CHECK(evaluated(splits, 1).labels == std::vector<std::int32_t>{0, 0, 1, 1, 1, 2, 2, 2});

    const auto size = std::filesystem::file_size(cache);
    const auto message = [&] { return error_of<DataError>([&] { tree.load(skip); }); };
    std::filesystem::resize_file(cache, size - 1);
    CHECK(contains(message(), "cache: truncated: it ends at byte " + std::to_string(size - 1)));
    std::filesystem::resize_file(cache, 50);
    CHECK(contains(message(), "cache: truncated: it ends at byte 50"));
    std::filesystem::resize_file(cache, 7);
    CHECK(contains(message(), "within its header"));
    write_bytes(cache, Bytes(100));
    CHECK(contains(message(), "not a cache of images"));
  }

  TEST_CASE("memory does not grow from epoch to epoch") {
    const ImageTree tree;
    Loader loader(tree.load().train, {.batch = 6});
    const auto bytes_in_use = [&] {
      for (int step = 0; step < 9; ++step) loader.next();
      return ::mallinfo2().uordblks;  // 0 with a sanitizer's allocator
    };
    bytes_in_use();
    const std::size_t before = bytes_in_use();
    for (int i = 0; i < 4; ++i) bytes_in_use();
    CHECK(bytes_in_use() <= before + 200'000);  // a batch is being read; an image takes 3 kB in memory
  }

  TEST_CASE("threads work on every shared item once and report the lowest that failed") {
    for (int round = 0; round < 50; ++round) {
      std::vector<int> done(37);
      share_items(4, done.size(), [&](std::size_t item, std::size_t thread) {
        CHECK(thread < 4);
        ++done[item];
      });
      CHECK(done == std::vector<int>(37, 1));
      const std::string message = error_of<DataError>([&] {
        share_items(4, 20, [](std::size_t item, std::size_t) {
          if (item >= 7) throw DataError(std::to_string(item));
        });
      });
      CHECK(message == "7");
    }
  }
}

}  // namespace
}  // namespace dragonn::data

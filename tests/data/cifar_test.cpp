// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/error.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;

constexpr std::size_t kPixels = 3072;

/// A record with this label whose pixel p of plane c is 10 c + p mod 10.
Bytes record(const Bytes& labels) {
  Bytes bytes = labels;
  for (std::size_t i = 0; i < kPixels; ++i) bytes.push_back(static_cast<std::uint8_t>(10 * (i / 1024) + i % 1024 % 10));
  return bytes;
}

Bytes records(const std::vector<Bytes>& labels) {
  Bytes bytes;
  for (const Bytes& label : labels) {
    const Bytes one = record(label);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

void write_cifar10(const TemporaryFolder& folder) {
  write_bytes(folder / "data_batch_2.bin", records({{3}, {4}}));
  write_bytes(folder / "data_batch_1.bin", records({{1}, {2}, {9}}));
  write_bytes(folder / "test_batch.bin", records({{0}}));
}

TEST_SUITE("data") {
  TEST_CASE("cifar10 takes the batches that are there, by name") {
    const TemporaryFolder folder;
    write_cifar10(folder);
    const DatasetSplits splits = load_dataset("cifar10", folder.path());
    REQUIRE(splits.train->size() == 5);
    REQUIRE(splits.test->size() == 1);
    const std::int32_t expected[] = {1, 2, 9, 3, 4};
    for (std::size_t i = 0; i < 5; ++i) CHECK(read_label(*splits.train, i) == expected[i]);
    CHECK(splits.train->classes() == 10);
    CHECK(splits.train->sample_shape() == Shape{32, 32, 3});
  }

  TEST_CASE("cifar images become channels-last floats") {
    const TemporaryFolder folder;
    write_cifar10(folder);
    const DatasetSplits plain = load_dataset("cifar10", folder.path(), {{"normalize", false}});
    const DatasetSplits normalized = load_dataset("cifar10", folder.path());
    const std::vector<float> pixels = read_sample(*plain.train, 0), values = read_sample(*normalized.train, 0);
    const float means[] = {0.4914f, 0.4822f, 0.4465f}, deviations[] = {0.2470f, 0.2435f, 0.2616f};
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const std::size_t channel = i % 3, place = i / 3;
      CHECK(pixels[i] == static_cast<float>(10 * channel + place % 10) / 255.0f);
      CHECK(values[i] == (pixels[i] - means[channel]) / deviations[channel]);
    }
  }

  TEST_CASE("cifar100 takes the fine label") {
    const TemporaryFolder folder;
    write_bytes(folder / "train.bin", records({{19, 99}, {0, 7}}));
    write_bytes(folder / "test.bin", records({{5, 50}}));
    const DatasetSplits splits = load_dataset("cifar100", folder.path());
    CHECK(splits.train->classes() == 100);
    CHECK(read_label(*splits.train, 0) == 99);
    CHECK(read_label(*splits.train, 1) == 7);
    CHECK(read_label(*splits.test, 0) == 50);
  }

  TEST_CASE("limits keep the first images") {
    const TemporaryFolder folder;
    write_cifar10(folder);
    const Overrides limits{{"train_limit", std::int64_t{4}}, {"test_limit", std::int64_t{10}}};
    const DatasetSplits splits = load_dataset("cifar10", folder.path(), limits);
    CHECK(splits.train->size() == 4);
    CHECK(read_label(*splits.train, 3) == 3);
    CHECK(splits.test->size() == 1);
  }

  TEST_CASE("validation takes the last training images in place of the test images") {
    const TemporaryFolder folder;
    write_cifar10(folder);
    const std::size_t images = load_dataset("cifar10", folder.path()).train->size();
    const DatasetSplits splits = load_dataset("cifar10", folder.path(), {{"validation", std::int64_t{2}}});
    REQUIRE(splits.train->size() == images - 2);
    REQUIRE(splits.test->size() == 2);
    const DatasetSplits whole = load_dataset("cifar10", folder.path());
    std::vector<float> expected(whole.train->sample_shape().size()), found(expected.size());
    std::vector<std::int32_t> labels;
    dynamic_cast<const SampleDataset&>(*whole.train).read(images - 1, nullptr, expected, labels);
    dynamic_cast<const SampleDataset&>(*splits.test).read(1, nullptr, found, labels);
    CHECK(found == expected);
    CHECK(labels[0] == labels[1]);
    const Overrides all{{"validation", static_cast<std::int64_t>(images)}};
    CHECK(contains(error_of<ConfigError>([&] { load_dataset("cifar10", folder.path(), all); }),
                   fmt::format("data.validation = {0}: expected fewer than the {0} training images", images)));
  }

  TEST_CASE("missing cifar data says what is missing and how to get it") {
    const TemporaryFolder folder;
    const std::string absent = (folder / "absent").string();
    const auto error = [](const std::string& name, const std::string& path) {
      return error_of<ConfigError>([&] { load_dataset(name, path); });
    };
    CHECK(error("cifar10", absent) == absent +
                                          ": no such folder: data.path must name the folder of cifar10; to get it: "
                                          "scripts/get_data.sh cifar10 " +
                                          absent);
    CHECK(contains(error("cifar10", ""), "data.path is not set"));
    CHECK(contains(error("cifar10", folder.path()), "no data_batch_*.bin"));
    CHECK(contains(error("cifar100", folder.path()), "train.bin: no such file"));
    write_bytes(folder / "data_batch_1.bin", records({{1}}));
    CHECK(contains(error("cifar10", folder.path()), "test_batch.bin: no such file"));
    CHECK(contains(error("cifar10", (folder / "data_batch_1.bin").string()), "is not a folder"));
  }

  TEST_CASE("damaged cifar files are refused with file and offset") {
    const TemporaryFolder folder;
    write_cifar10(folder);
    const auto error = [&] { return error_of<DataError>([&] { load_dataset("cifar10", folder.path()); }); };
    Bytes bytes = records({{1}, {2}});
    bytes.pop_back();
    write_bytes(folder / "data_batch_2.bin", bytes);
    CHECK(contains(error(), (folder / "data_batch_2.bin").string() + ": truncated: the record at byte 3073"));
    write_bytes(folder / "data_batch_2.bin", records({{1}, {10}}));
    CHECK(contains(error(), "label 10 at byte 3073: cifar10 has labels 0 to 9"));
    write_bytes(folder / "data_batch_2.bin", {});
    CHECK(contains(error(), "data_batch_2.bin: truncated"));
  }
}

}  // namespace
}  // namespace dragonn::data

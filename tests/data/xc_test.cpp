// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "data/loader.h"
#include "data/xc_file.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;

TEST_SUITE("data") {
  TEST_CASE("points have sparse features and any number of labels") {
    const TemporaryFolder folder;
    const auto read = [&](const std::string& text) {
      write_bytes(folder / "xc.txt", Bytes(text.begin(), text.end()));
      BadSamples errors;
      return read_xc_file(folder / "xc.txt", errors);
    };
    SparsePoints points = read("3 10 4\n3,0,3 1:0.5 9:-2\r\n 0:1e-1\n2\n");
    REQUIRE(points.size() == 3);
    CHECK(points.feature_count() == 10);
    CHECK(points.label_count() == 4);
    const auto labels = [&](std::size_t point) {
      return std::vector<std::int32_t>(points.labels(point).begin(), points.labels(point).end());
    };
    CHECK(labels(0) == std::vector<std::int32_t>{0, 3});
    CHECK(labels(1).empty());
    CHECK(labels(2) == std::vector<std::int32_t>{2});
    REQUIRE(points.features(0).size() == 2);
    CHECK(points.features(0)[1].index == 9);
    CHECK(points.features(0)[1].value == -2);
    CHECK(points.features(1)[0].value == 0.1f);
    CHECK(points.features(2).empty());
    points.keep_first(1);
    CHECK(points.size() == 1);
    CHECK(labels(0) == std::vector<std::int32_t>{0, 3});

    const auto message = [&](const std::string& text) { return error_of<DataError>([&] { read(text); }); };
    CHECK(contains(message("1 10 4\n4 1:1\n"), "xc.txt:2: label 4: should be 0 to 3"));
    CHECK(contains(message("1 10 4\n1 10:1\n"), "xc.txt:2: feature 10: should be 0 to 9"));
    CHECK(contains(message("1 10 4\n1 2=1\n"), "xc.txt:2: no ':' at column 4"));
    CHECK(contains(message("1 10 4\n1 2:x\n"), "xc.txt:2: no value at column 5"));
    CHECK(contains(message("1 10 4\n1 2:inf\n"), "xc.txt:2: value inf"));
    CHECK(contains(message("1 10 4\n2:1\n"), "xc.txt:2: features must come behind a blank"));
    CHECK(contains(message("1 10 4\na 2:1\n"), "xc.txt:2: no label at column 1"));
    CHECK(contains(message("1 10\n1 2:1\n"), "xc.txt:1: no number of labels"));
    CHECK(contains(message("0 10 4\n"), "xc.txt:1: a count of 0"));
    CHECK(contains(message("1 10 4\n1\n2\n"), "xc.txt:3: a point too many"));
    CHECK(contains(message("3 10 4\n1\n2\n"), "xc.txt:3: the file ends after 2 points"));
    CHECK(contains(message(""), "xc.txt: an empty file"));
    CHECK(contains(error_of<ConfigError>([&] {
                     BadSamples errors;
                     read_xc_file(folder / "no.txt", errors);
                   }),
                   "no.txt"));
  }

  TEST_CASE("points whose line is bad can be left out") {
    const TemporaryFolder folder;
    const auto read = [&](const std::string& text, BadSamples& bad) {
      write_bytes(folder / "xc.txt", Bytes(text.begin(), text.end()));
      return read_xc_file(folder / "xc.txt", bad);
    };
    BadSamples skipped = skipping();
    const SparsePoints points = read("4 10 4\n3 1:1\n0,4 2:1\n1 3:1 10:1\n2 4:1\n", skipped);
    REQUIRE(points.size() == 2);
    CHECK(points.labels(1).size() == 1);
    CHECK(points.labels(1)[0] == 2);
    REQUIRE(points.features(1).size() == 1);
    CHECK(points.features(1)[0].index == 4);
    CHECK(skipped.count() == 2);
    CHECK(contains(skipped.first(), "xc.txt:3: label 4: should be 0 to 3"));
    // A fault of the file as a whole remains an error.
    CHECK(contains(error_of<DataError>([&] { read("2 10 4\n9 1:1\n", skipped); }), "the file ends after 1 points"));
    CHECK(contains(error_of<DataError>([&] { read("1 10 4\n9 1:1\n", skipped); }), "no point is left"));
  }

  TEST_CASE("points of a file become inputs of one length, and sets of labels") {
    const TemporaryFolder folder;
    const std::string train = "2 50 7\n6,2 1:0.5 40:-2\n 0:1\n", test = "1 50 7\n1 1:0.5 40:-2\n";
    write_bytes(folder / "train.txt", Bytes(train.begin(), train.end()));
    write_bytes(folder / "test.txt", Bytes(test.begin(), test.end()));
    const DatasetSplits splits = load_dataset("xc", folder.path(), {{"inputs", std::int64_t{64}}});
    CHECK(splits.train->target_kind() == TargetKind::kClassSet);
    CHECK(splits.train->classes() == 7);
    CHECK(splits.train->sample_shape() == Shape{64});
    const Sample point = read(*splits.train, 0);
    CHECK(point.labels == std::vector<std::int32_t>{2, 6});
    CHECK(point.values == read(*splits.test, 0).values);  // the projection is the set's own
    CHECK(point.values != read(*splits.train, 1).values);
    double squares = 0;
    for (const float value : point.values) squares += static_cast<double>(value) * value;
    CHECK(std::abs(squares - 64) < 1e-3);

    EvaluationLoader loader(splits.train, 2, 0, 1);
    const Batch* batch = loader.next();
    REQUIRE(batch != nullptr);
    CHECK(batch->labels == std::vector<std::int32_t>{2, 6});
    CHECK(batch->offsets == std::vector<std::int32_t>{0, 2, 2});

    const std::string other = "1 50 8\n1 1:0.5\n";
    write_bytes(folder / "test.txt", Bytes(other.begin(), other.end()));
    CHECK(contains(error_of<DataError>([&] { load_dataset("xc", folder.path()); }), "test.txt has 50 and 8"));
    CHECK(contains(error_of<ConfigError>([&] { load_dataset("xc", ""); }), "data.path is not set"));
  }

  TEST_CASE("generated points follow a power law and can be told by their labels' patterns") {
    const Overrides small{{"train_samples", std::int64_t{2000}}, {"test_samples", std::int64_t{10}},
                          {"labels", std::int64_t{500}},         {"labels_per_point", std::int64_t{3}},
                          {"inputs", std::int64_t{256}},         {"noise", 0.0}};
    const DatasetSplits splits = load_dataset("synthetic_xc", "", small);
    std::vector<int> counts(500);
    std::size_t agreeing = 0, pairs = 0;
    for (std::size_t i = 0; i < 2000; ++i) {
      const Sample point = read(*splits.train, i);
      REQUIRE(!point.labels.empty());
      CHECK(std::ranges::is_sorted(point.labels));
      for (const std::int32_t label : point.labels) ++counts.at(static_cast<std::size_t>(label));
      if (i > 0 && point.labels == read(*splits.train, i - 1).labels) {
        ++pairs;
        agreeing += point.values == read(*splits.train, i - 1).values ? 1 : 0;
      }
    }
    CHECK(agreeing == pairs);  // without noise, equal labels are equal points
    // 3 draws of the first label in 2000 points: 2000 (1 - (1 - 1 / H(500))^3) = 753 of them have it.
    CHECK(std::abs(counts[0] - 753) < 80);
    CHECK(counts[0] > 5 * counts[9]);
    CHECK(read(*splits.train, 5).values == read(*load_dataset("synthetic_xc", "", small).train, 5).values);
    CHECK(read(*splits.train, 5).values != read(*load_dataset("synthetic_xc", "", small, 2).train, 5).values);
  }
}

}  // namespace
}  // namespace dragonn::data

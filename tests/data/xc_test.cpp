// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
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
      return read_xc_file(folder / "xc.txt");
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
    CHECK(contains(error_of<ConfigError>([&] { read_xc_file(folder / "no.txt"); }), "no.txt"));
  }
}

}  // namespace
}  // namespace dragonn::data

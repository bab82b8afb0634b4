// SPDX-License-Identifier: MIT
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/file.h"
#include "report/run.h"
#include "tests/core/temporary_folder.h"

namespace {

using namespace dragonn;
using namespace dragonn::report;
using dragonn::test::TemporaryFolder;

constexpr std::string_view kRows = R"([
  {"input":"run/a.npy","share":0.5,"magnitude":1,"exponential":2,"gamma":3,"pareto":4},
  {"input":"run/a.npy","share":0.1,"magnitude":5,"exponential":6,"gamma":7,"pareto":8},
  {"input":"run/b.npy","share":0.5,"magnitude":9,"exponential":1,"gamma":1,"pareto":1},
  {"input":"run/b.npy","share":0.5,"magnitude":9,"exponential":1,"gamma":1,"pareto":1}
])";

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("fits are read input by input, and a file that was given twice is there twice") {
    TemporaryFolder temporary;
    write_file_atomically(temporary / "fit.json", kRows);
    const std::vector<Fit> fits = load_fits(temporary / "fit.json");
    REQUIRE(fits.size() == 3);
    CHECK(fits[0].name == "a.npy");
    CHECK(fits[0].share == std::vector<double>{0.5, 0.1});
    CHECK(fits[0].magnitude == std::vector<double>{1, 5});
    CHECK(fits[0].exponential == std::vector<double>{2, 6});
    CHECK(fits[0].gamma == std::vector<double>{3, 7});
    CHECK(fits[0].pareto == std::vector<double>{4, 8});
    CHECK(fits[1].name == "b.npy");
    CHECK(fits[2].name == "b.npy");
  }

  TEST_CASE("a file that is no list of fits is refused by name") {
    TemporaryFolder temporary;
    for (const char* text : {"", "{", "[{\"input\":\"a\"}]", "[1]", "[{\"input\":1,\"share\":1}]"}) {
      CAPTURE(text);
      write_file_atomically(temporary / "bad.json", std::string_view(text));
      CHECK_THROWS_AS(load_fits(temporary / "bad.json"), DataError);
    }
    CHECK_THROWS_AS(load_fits(temporary / "none.json"), ConfigError);
  }
}

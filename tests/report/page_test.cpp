// SPDX-License-Identifier: MIT
#include "report/page.h"

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/core/temporary_folder.h"
#include "tests/report/fake_run.h"

namespace {

using namespace dragonn;
using namespace dragonn::report;
using dragonn::test::TemporaryFolder;

/// The object that the page's script calls DATA.
nlohmann::json data_of(const std::string& page) {
  const std::string mark = "const DATA = ";
  const std::size_t begin = page.find(mark) + mark.size();
  return nlohmann::json::parse(page.substr(begin, page.find(";\n", begin) - begin));
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("the page is complete: data, style, drawing code and chart library, and no address to load from") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "dense");
    fake.config("dense", 1).step(10, 2.0).eval(10, 0.5).summary(10);
    const std::string page =
        html_page(compare({load_run(fake.folder())}), {{"a.npy", {0.5}, {1}, {2}, {3}, {4}}}, "A <title>");
    CHECK(page.find("{{") == page.find("{{", page.find("Chart.js v")));  // no mark is left in front of the library
    CHECK(page.find("<h1>A &lt;title></h1>") != std::string::npos);
    CHECK(page.find("Chart.js v") != std::string::npos);
    CHECK(page.find("function drawResults") != std::string::npos);
    for (const char* loading : {"src=", "href=", "@import", "url("}) {
      CAPTURE(loading);
      CHECK(page.substr(0, page.find("<script>")).find(loading) == std::string::npos);
    }
    const auto data = data_of(page);
    CHECK(data["groups"].size() == 1);
    CHECK(data["groups"][0]["table"]["final"]["mean"] == 0.5);
    CHECK(data["groups"][0]["loss"]["mean"] == nlohmann::json{2.0});
    CHECK(data["dense"] == 0);
    REQUIRE(data["fits"].size() == 1);
    CHECK(data["fits"][0]["pareto"] == nlohmann::json{4.0});
  }

  TEST_CASE("names cannot break out of the page's script") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a<script>b");
    fake.step(10, 2.0).summary(10, R"(["</script><b>"])");
    const std::string page = html_page(compare({load_run(fake.folder())}), {}, "t");
    CHECK(page.find("</script><b>") == std::string::npos);
    CHECK(data_of(page)["warnings"][0] == "a<script>b: </script><b>");
    CHECK(data_of(page)["target"].is_null());
  }
}

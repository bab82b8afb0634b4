// SPDX-License-Identifier: MIT
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "report/outputs.h"
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

  TEST_CASE("the page has both clocks, the network by name and the break-even bandwidth") {
    TemporaryFolder temporary;
    FakeRun dense(temporary / "dense"), topk(temporary / "topk");
    dense.config("dense", 1).virtual_summary().both(10, 0.5, 30, 10, 2'000'000);
    topk.config("topk", 1).virtual_summary().both(10, 0.5, 13, 12, 100'000);
    const auto data = data_of(html_page(compare({load_run(dense.folder()), load_run(topk.folder())}), {}, "t"));
    CHECK(data["clock"]["has_ideal"] == true);
    CHECK(data["clock"]["name"] == "virtual time");
    CHECK(data["clock"]["described"] == "at 8 Mbit/s");
    CHECK(data["clock"]["text"] ==
          "virtual time: modelled network 8 Mbit/s, 100 us latency; compute time is measured CPU time");
    CHECK(data["bandwidths"]["described"] == nlohmann::json{0.008});
    CHECK(data["groups"][0]["metric"]["time"] == nlohmann::json{30});
    CHECK(data["groups"][0]["metric"]["time_ideal"] == nlohmann::json{10});
    CHECK(data["groups"][1]["table"]["target_ideal"]["mean"] == 12);
    CHECK(data["groups"][1]["clock"][1] == "8 Mbit/s, 100 us latency");
    CHECK(data["groups"][1]["model"]["gigabits"] == doctest::Approx(0.008));
    CHECK(data["groups"][1]["pays"] == "below 76 Mbit/s");
    CHECK(data["groups"][0]["style"]["color"] == "--dense");
    CHECK(data["groups"][1]["style"]["color"] == "--c0");
    CHECK(data["groups"][1]["style"]["dash"] != data["groups"][0]["style"]["dash"]);
  }

  TEST_CASE("a page of wall times says so and has no chart of an ideal network") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "dense");
    fake.config("dense", 1).step(10, 2.0).eval(10, 0.5).summary(10);
    const auto data = data_of(html_page(compare({load_run(fake.folder())}), {}, "t"));
    CHECK(data["clock"]["has_ideal"] == false);
    CHECK(data["clock"]["text"] == "wall time");
    CHECK(data["groups"][0]["clock"] == nlohmann::json{"wall"});
    CHECK(data["groups"][0]["model"].is_null());
    CHECK(data["groups"][0]["metric"]["time_ideal"].empty());
  }

  TEST_CASE("every chart has a role, words and a table, and every wide table scrolls by itself") {
    const auto parts = page_parts();
    const std::string page(parts.at("page")), describe(parts.at("describe_js"));
    CHECK(describe.find("setAttribute('role', 'img')") != std::string::npos);
    CHECK(describe.find("setAttribute('aria-label'") != std::string::npos);
    std::size_t drawn = 0, canvases = 0;
    for (const char* name : {"pays_js", "estimation_js", "charts_js", "lines_js"}) {
      const std::string_view script = parts.at(name);
      for (std::size_t at = script.find("new Chart("); at != script.npos; at = script.find("new Chart(", at + 1))
        ++drawn;
      for (std::size_t at = script.find("describe"); at != script.npos; at = script.find("describe", at + 1)) {
        if (script.substr(at).starts_with("describe(canvas") || script.substr(at).starts_with("describeLines(canvas")) {
          ++canvases;
        }
      }
    }
    CHECK(drawn == 3);  // line charts, the parts of a step, the estimation's bars
    CHECK(canvases == drawn);
    for (std::size_t at = page.find("<table"); at != std::string::npos; at = page.find("<table", at + 1)) {
      CHECK(page.substr(at - 20, 20).ends_with("<div class=\"scroll\">"));
    }
  }
}

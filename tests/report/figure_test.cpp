// SPDX-License-Identifier: MIT
#include "report/figure.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/core/temporary_folder.h"
#include "tests/report/fake_run.h"

namespace {

using namespace dragonn;
using namespace dragonn::report;
using dragonn::test::TemporaryFolder;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("the figure has a curve per run and panel, and colours that come again are dashed") {
    TemporaryFolder temporary;
    std::vector<Run> runs;
    for (int i = 0; i < 10; ++i) {
      FakeRun fake(temporary / fmt::format("run{}", i));
      fake.config(i == 0 ? "dense" : fmt::format("method{}", i), 1);
      fake.step(10, 3.0).eval(10, 0.25).step(20, 2.0).eval(20, 0.5);
      runs.push_back(load_run(fake.folder()));
    }
    const std::string svg = svg_figure(compare(std::move(runs)), "A <title>");
    CHECK(svg.starts_with("<svg "));
    CHECK(svg.find("A &lt;title>") != std::string::npos);
    CHECK(count(svg, "#59616d") == 3);  // dense: a curve in each panel and the line of the legend
    CHECK(count(svg, "#0072b2") == 6);  // the first and the ninth method
    CHECK(count(svg, "stroke-dasharray") == 3);
    CHECK(svg.find(">50 %</text>") != std::string::npos);
    CHECK(svg.find(">run9</text>") != std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
  }

  TEST_CASE("a run without evaluations leaves an empty panel") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "run");
    fake.step(10, 3.0);
    const std::string svg = svg_figure(compare({load_run(fake.folder())}), "t");
    CHECK(svg.find("inf") == std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.ends_with("</svg>\n"));
  }
}

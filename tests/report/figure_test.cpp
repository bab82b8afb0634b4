// SPDX-License-Identifier: MIT
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "report/outputs.h"
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
  TEST_CASE("the figure has a curve per run and panel, told apart by dash and marker, and words") {
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
    CHECK(count(svg, "stroke=\"#59616d\" stroke-width=\"1.6\"/>") == 2);  // dense: a solid curve in each panel
    CHECK(count(svg, "stroke=\"#0072b2\" stroke-width=\"1.6\" stroke-dasharray") ==
          4);                                            // the first and the ninth method
    CHECK(count(svg, "stroke-dasharray=\"7 3\"") == 6);  // the first and the sixth: curves, and lines of the legend
    CHECK(count(svg, "transform=\"translate(") == 10 * (2 + 2 + 1));  // markers: two points in each panel, legend
    CHECK(svg.find("role=\"img\"") != std::string::npos);
    CHECK(svg.find("<title>A &lt;title></title>") != std::string::npos);
    CHECK(svg.find("<desc>Two line charts: Test accuracy against epochs; ") != std::string::npos);
    CHECK(svg.find("dense: 50 % at the end.") == std::string::npos);  // groups have the folders' names
    CHECK(svg.find("run0: 50 % at the end.") != std::string::npos);
    CHECK(svg.find(">50 %</text>") != std::string::npos);
    CHECK(svg.find(">run9</text>") != std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
  }

  TEST_CASE("the styles of curves differ in dash and marker, even where colours come round again") {
    std::set<std::tuple<std::string_view, std::string_view, std::string_view>> styles;
    for (std::size_t i = 0; i < 100; ++i) styles.insert({style_of(i).color, style_of(i).dash, style_of(i).marker});
    CHECK(styles.size() == 100);
    CHECK(style_of(0).dash != style_of(1).dash);
    CHECK(style_of(0).marker != style_of(1).marker);
    CHECK_FALSE(style_of(0).dash.empty());
    CHECK(style_of(0).color == style_of(8).color);
    CHECK(style_of(0).marker != style_of(8).marker);
  }

  TEST_CASE("with both clocks the figure shows quality against time on the described and on the ideal network") {
    TemporaryFolder temporary;
    std::vector<Run> runs;
    for (const char* name : {"dense", "topk", "gtopk"}) {
      const bool dense = std::string(name) != "topk";  // gtopk is as late
      FakeRun fake(temporary / name);
      fake.config(name, 1).virtual_summary(0.1);
      fake.both(10, 0.25, dense ? 40 : 20, 10).both(20, 0.5, dense ? 80 : 20, dense ? 10 : 15);
      runs.push_back(load_run(fake.folder()));
    }
    const std::string svg = svg_figure(compare(std::move(runs)), "t");
    CHECK(svg.find(">Test accuracy at 100 Mbit/s: the described network</text>") != std::string::npos);
    CHECK(svg.find(">virtual time at 100 Mbit/s (s)</text>") != std::string::npos);
    CHECK(svg.find(">virtual time on an ideal network (s)</text>") != std::string::npos);
    CHECK(svg.find(">80 s to target</text>") != std::string::npos);
    CHECK(svg.find(">20 s to target, 4x sooner</text>") != std::string::npos);
    CHECK(svg.find(">15 s to target, 1.5x later</text>") != std::string::npos);
    CHECK(svg.find(">80 s to target, as dense</text>") != std::string::npos);
    CHECK(svg.find("modelled network 100 Mbit/s") != std::string::npos);
    CHECK(svg.find(">epochs</text>") == std::string::npos);
  }

  TEST_CASE("seeds of one method are a band around their mean") {
    TemporaryFolder temporary;
    std::vector<Run> runs;
    for (int seed : {1, 2}) {
      FakeRun fake(temporary / fmt::format("topk-seed{}", seed));
      fake.config("topk", seed).step(10, 2.0).eval(10, 0.2 * seed).step(20, 1.0).eval(20, 0.3 * seed);
      runs.push_back(load_run(fake.folder()));
    }
    CHECK(count(svg_figure(compare(std::move(runs)), "t"), "fill-opacity=\"0.15\"") == 1);
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

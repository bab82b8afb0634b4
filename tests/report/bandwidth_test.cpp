// SPDX-License-Identifier: MIT
#include "report/bandwidth.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "report/outputs.h"
#include "report/text.h"
#include "tests/core/temporary_folder.h"
#include "tests/report/fake_run.h"

namespace {

using namespace dragonn;
using namespace dragonn::report;
using dragonn::test::TemporaryFolder;

/// Dense and top-k on 10^6 bytes a second. Dense: 10 s of compute, 10 s of bytes, 2 s of latency (20,000 messages).
/// Top-k: 12, 1 and 0.5 s.
struct Example {
  TemporaryFolder temporary;

  Comparison compared() {
    return compare(
        {make("dense", "dense", 22, 10, 1'000'000, 1, 2000), make("topk", "topk", 13.5, 12, 100'000, 1, 500)});
  }
  Run make(const std::string& name, const std::string& method, double time, double ideal, double bytes, int seed = 1,
           double messages = 0) {
    FakeRun fake(temporary / name);
    fake.config(method, seed)
        .virtual_summary()
        .both(5, 0.25, time / 2, ideal / 2, bytes, messages)
        .both(10, 0.5, time, ideal, bytes, messages);
    return load_run(fake.folder());
  }
};

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0, begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
    longest = std::max(longest, width(std::string_view(text).substr(begin, end - begin)));
  }
  return longest;
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("the time to target at a bandwidth is the ideal time, the latency of the messages and the transfer") {
    Example example;
    const Comparison comparison = example.compared();
    const auto dense = time_model(comparison.groups[0]);
    REQUIRE(dense);
    CHECK(dense->ideal == 10);
    CHECK(dense->gigabits == doctest::Approx(0.08));  // 10 MB: where ports never wait, the bytes of a worker
    CHECK(dense->latency == doctest::Approx(2));
    CHECK(dense->seconds(0.008) == doctest::Approx(22));  // the described network: what was modelled
    CHECK(dense->seconds(0.004) == doctest::Approx(32));
    CHECK(dense->seconds(1e9) == doctest::Approx(12));
  }

  TEST_CASE("waits for other workers' bytes shrink with the bandwidth, as the bytes do") {
    Example example;
    const Comparison tree = compare({example.make("tree", "gtopk", 14, 10, 1'000'000 / 4, 1, 1000)});
    CHECK(time_model(tree.groups[0])->latency == doctest::Approx(1));
    CHECK(time_model(tree.groups[0])->gigabits == doctest::Approx(0.024));  // 3 s, though a worker sends for 2.5 s
    CHECK(time_model(tree.groups[0])->seconds(0.08) == doctest::Approx(11.3));
  }

  TEST_CASE("latency is never more than the network's share of the time") {
    Example example;
    const auto hidden = time_model(compare({example.make("hidden", "topk", 11, 10, 1000, 1, 5000)}).groups[0]);
    CHECK(hidden->latency == doctest::Approx(1));
    CHECK(hidden->gigabits == 0);
    const auto early = time_model(compare({example.make("early", "topk", 9, 10, 1000, 1, 5000)}).groups[0]);
    CHECK(early->fixed() == 10);
  }

  TEST_CASE("a run pays below the bandwidth where its time crosses dense's") {
    Example example;
    const Comparison comparison = example.compared();
    const auto crossing = break_even(comparison, comparison.groups[1]);
    REQUIRE(crossing);
    CHECK(crossing->pays == BreakEven::Pays::kBelow);
    CHECK(crossing->gbps == doctest::Approx(9e6 * 8 / 0.5 / 1e9));  // 9 MB less, half a second more
    CHECK(crossing->text() == "below 144 Mbit/s");
    CHECK_FALSE(break_even(comparison, comparison.groups[0]));
    const TimeModel dense = *time_model(comparison.groups[0]), topk = *time_model(comparison.groups[1]);
    CHECK(topk.seconds(crossing->gbps) == doctest::Approx(dense.seconds(crossing->gbps)));
  }

  TEST_CASE("a run may pay at every bandwidth, at none, or above one") {
    const TimeModel dense{10, 2, 0.008};
    CHECK(break_even({9, 2, 0.0008}, dense).text() == "at every bandwidth");
    CHECK(break_even({12, 0, 0.0008}, dense).text() == "at every bandwidth");
    CHECK(break_even({11, 2, 0.008}, dense).text() == "at no bandwidth");
    CHECK(break_even(dense, dense).text() == "at no bandwidth");
    CHECK(break_even({11, 0, 0.016}, dense).text() == "above 8 Mbit/s");
  }

  TEST_CASE("without target, ideal time or bandwidth there is no break-even") {
    Example example;
    CHECK_FALSE(time_model(compare({example.make("a", "dense", 22, 10, 1)}, {.target = 0.9}).groups[0]));
    FakeRun wall(example.temporary / "wall");
    wall.config("dense", 1).step(10, 1.0).eval(10, 0.5).summary(1);
    CHECK_FALSE(time_model(compare({load_run(wall.folder())}).groups[0]));
  }

  TEST_CASE("seeds count by their mean, and one that misses the target leaves the group without a time") {
    Example example;
    const auto runs = [&](double ideal) {
      return std::vector<Run>{example.make("x-seed1", "topk", 13.5, 12, 100'000, 1),
                              example.make("x-seed2", "topk", 13.5 + ideal - 12, ideal, 100'000, 2)};
    };
    const Comparison comparison = compare(runs(16));
    REQUIRE(comparison.groups.size() == 1);
    CHECK(time_model(comparison.groups[0])->ideal == doctest::Approx(14));
    CHECK(comparison.groups[0].spread_of(&Reached::time_ideal)->high == 16);
    FakeRun low(example.temporary / "x-seed3");
    low.config("topk", 3).virtual_summary().both(10, 0.1, 12, 10);
    auto more = runs(16);
    more.push_back(load_run(low.folder()));
    CHECK_FALSE(time_model(compare(std::move(more), {.target = 0.4}).groups[0]));
  }

  TEST_CASE("the clock is named: virtual with its network and compute, wall, or several") {
    Example example;
    const Run modelled = example.make("a", "dense", 22, 10, 1);
    CHECK(clock_text(modelled) ==
          "virtual time: modelled network 8 Mbit/s, 100 us latency; compute time is measured CPU time");
    FakeRun wall(example.temporary / "b");
    wall.config("topk", 1).step(10, 1.0).eval(10, 0.5).summary(1);
    const Comparison mixed = compare({modelled, load_run(wall.folder())});
    CHECK(clock_name(mixed) == "time");
    CHECK_FALSE(shared_network(mixed));
    CHECK(clock_text(mixed) == "times of several kinds: the table names each run's");
    CHECK(clock_name(compare({modelled})) == "virtual time");
    CHECK(network_text({{}, {}, "zero", "1gbe"}) == "1gbe");
    CHECK(network_text({0.888, 436.0, "zero", "1gbe"}) == "888 Mbit/s, 436 us latency (1gbe)");
    CHECK(compute_text({{}, {}, "zero", ""}) == "compute takes no time");
  }

  TEST_CASE("runs on other networks than the first are warned of") {
    Example example;
    FakeRun fake(example.temporary / "fast");
    fake.config("topk", 1).virtual_summary(1).both(10, 0.5, 11, 10);
    const Comparison comparison = compare({example.make("slow", "dense", 22, 10, 1), load_run(fake.folder())});
    REQUIRE(comparison.warnings.size() == 1);
    CHECK(comparison.warnings[0].find("the times of slow and fast do not compare: slow has virtual time") == 0);
  }

  TEST_CASE("the terminal's table has both clocks, traffic and break-even, and no line above 100 columns") {
    Example example;
    const std::string text = terminal_summary(example.compared());
    CHECK(text.find("to target, 8 Mbit/s") != std::string::npos);
    CHECK(text.find("13.5 s (1.63x)") != std::string::npos);
    CHECK(text.find("12 s (0.833x)") != std::string::npos);
    CHECK(text.find("100 kB (10x less)") != std::string::npos);
    CHECK(text.find("below 144 Mbit/s") != std::string::npos);
    CHECK(text.find(
              "Target: Test accuracy of 47.50 % (at least 95 % of dense's final value); 4 workers; virtual time:") !=
          std::string::npos);
    CHECK(longest_line(text) <= kTerminalColumns);
  }

  TEST_CASE("long names are shortened in the terminal, at whole characters") {
    Example example;
    const std::string name = "a\u00e4" + std::string(150, 'x');
    const std::string text = terminal_summary(
        compare({example.make("dense", "dense", 22, 10, 1'000'000), example.make(name, "topk", 13, 12, 1)}));
    CHECK(longest_line(text.substr(0, text.find("Target"))) <= kTerminalColumns);
    CHECK(text.find("a\u00e4xx") != std::string::npos);
    CHECK(text.find("xxx...") != std::string::npos);
  }

  TEST_CASE("a run that misses the target says so in the terminal, and pays nowhere") {
    Example example;
    const Run topk = example.make("topk", "topk", 13, 12, 1);
    FakeRun low(example.temporary / "low");
    low.config("gtopk", 1).virtual_summary().both(10, 0.1, 12, 10);
    const std::string text = terminal_summary(compare({topk, load_run(low.folder())}));
    const std::string line = text.substr(text.find("\nlow "));
    CHECK(line.find("not reached") != std::string::npos);
    CHECK(line.substr(0, line.find('\n', 1)).ends_with(" -"));
  }

  TEST_CASE("wall times have no ideal network in the terminal") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "dense");
    fake.config("dense", 1).step(10, 1.0).eval(10, 0.5).summary(1);
    const std::string text = terminal_summary(compare({load_run(fake.folder())}));
    CHECK(text.find("time to target") != std::string::npos);
    CHECK(text.find("; wall time.") != std::string::npos);
    CHECK(text.find("ideal") == std::string::npos);
    CHECK(text.find("pays") == std::string::npos);
  }

  TEST_CASE("the CSV names clock and network, and has the ideal times and the break-even bandwidth") {
    Example example;
    const std::string csv = runs_csv(example.compared());
    CHECK(csv.find(",clock,network_gbps,network_latency_us,network_compute,ideal_seconds,ideal_seconds_to_target,"
                   "ideal_time_to_target_speedup_over_dense,pays,break_even_gbps,bits_per_entry,utilization,drift\n") !=
          std::string::npos);
    CHECK(csv.find(",virtual,0.008,100,measured,10,10,1,,,,,\n") != std::string::npos);
    CHECK(csv.find(",virtual,0.008,100,measured,12,12,0.8333333333333334,below,0.14") != std::string::npos);
    CHECK(curves_csv(example.compared()).find(",22,10000000,1,,,,,,,,2000,,,,10\n") != std::string::npos);
  }

  TEST_CASE("numbers for readers have three digits and a unit") {
    CHECK(bandwidth_text(0.42) == "420 Mbit/s");
    CHECK(bandwidth_text(1.3) == "1.3 Gbit/s");
    CHECK(bandwidth_text(0.9999) == "1 Gbit/s");
    CHECK(bandwidth_text(5e-5) == "50 kbit/s");
    CHECK(bytes_text(1'070'000) == "1.07 MB");
    CHECK(seconds_text(0.0123) == "12.3 ms");
    CHECK(seconds_text(31.25) == "31.2 s");
    CHECK(seconds_text(1234) == "20.6 min");
    CHECK(ratio_text(50.04) == "50x");
  }
}

// SPDX-License-Identifier: MIT
/// Timelines of runs: what is on which track, how spans nest, limits, and files.
#include "core/timeline.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "comm/local/local.h"
#include "core/file.h"
#include "tests/comm/hostile_rank.h"
#include "tests/trainer/quick_run.h"
#include "trainer/metrics/step_timeline.h"

namespace dragonn::trainer {
namespace {

using Json = nlohmann::json;
using testing::TemporaryFolder;

/// A span of a file, in nanoseconds.
struct FileSpan {
  std::string name;
  std::int64_t begin, end;
  Json arguments;
};
/// The spans of one track, in the order of the file.
using FileTrack = std::vector<FileSpan>;

/// An end of a message's arrow.
struct Arrow {
  int rank;
  std::int64_t time;
};

struct TraceFile {
  Json description;
  std::map<std::pair<int, std::string>, FileTrack> tracks;   // by rank and name
  std::map<std::uint64_t, std::vector<Arrow>> begins, ends;  // by id
};

std::int64_t nanoseconds(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e3);
}

TraceFile read_trace(const std::filesystem::path& path) {
  const Json file = Json::parse(read_text_file(path));
  TraceFile trace{file.at("otherData"), {}, {}, {}};
  std::map<std::pair<int, int>, std::string> names;
  for (const Json& event : file.at("traceEvents")) {
    const std::pair place(event.at("pid").get<int>(), event.at("tid").get<int>());
    if (event.at("ph") == "M") {
      if (event.at("name") == "thread_name") names[place] = event.at("args").at("name");
      continue;
    }
    const std::int64_t begin = nanoseconds(event.at("ts"));
    if (event.at("ph") == "s" || event.at("ph") == "f") {
      CHECK(event.at("cat") == "message");
      CHECK(event.at("id") < std::uint64_t{1} << 53);
      auto& arrows = event.at("ph") == "s" ? trace.begins : trace.ends;
      arrows[event.at("id")].push_back({place.first, begin});
      continue;
    }
    CHECK(event.at("ph") == "X");
    trace.tracks[{place.first, names.at(place)}].push_back(
        {event.at("name"), begin, begin + nanoseconds(event.at("dur")), event.value("args", Json::object())});
  }
  return trace;
}

/// Returns the first span that neither is inside the one that is open nor begins behind it; empty if all nest.
std::string crossing_span(const FileTrack& track) {
  std::vector<FileSpan> open;
  std::int64_t latest = 0;
  for (const FileSpan& span : track) {
    if (span.begin < latest || span.end < span.begin) return span.name + " is out of order";
    latest = span.begin;
    while (!open.empty() && open.back().end <= span.begin && open.back().end < span.end) open.pop_back();
    if (!open.empty() && span.end > open.back().end) return span.name + " crosses the end of " + open.back().name;
    open.push_back(span);
  }
  return "";
}

/// Checks that every arrow has one begin and one end, on two ranks, and does not point back in time; and that it is at
/// a message. Returns the number of arrows.
std::size_t check_arrows(const TraceFile& trace) {
  CHECK(trace.begins.size() == trace.ends.size());
  const auto is_in_message = [&](const Arrow& arrow, const char* name) {
    const FileTrack& track = trace.tracks.at({arrow.rank, "exchange"});
    return std::ranges::any_of(track, [&](const FileSpan& span) {
      return span.name == name && span.begin <= arrow.time && arrow.time <= span.end;
    });
  };
  for (const auto& [id, begins] : trace.begins) {
    const auto found = trace.ends.find(id);
    REQUIRE(found != trace.ends.end());
    REQUIRE(begins.size() == 1);
    REQUIRE(found->second.size() == 1);
    const Arrow begin = begins[0], end = found->second[0];
    CHECK(begin.rank != end.rank);
    CHECK(begin.time <= end.time + 1);
    CHECK(is_in_message(begin, "send"));
    CHECK(is_in_message(end, "receive"));
  }
  return trace.begins.size();
}

std::size_t messages(const TraceFile& trace, const std::string& name) {
  std::size_t number = 0;
  for (const auto& [place, track] : trace.tracks) {
    number += static_cast<std::size_t>(std::ranges::count(track, name, &FileSpan::name));
  }
  return number;
}

/// Returns how often a track has each name.
std::map<std::string, int> counts(const FileTrack& track) {
  std::map<std::string, int> result;
  for (const FileSpan& span : track) ++result[span.name];
  return result;
}

/// Returns the buckets of a verb's spans.
std::multiset<int> buckets(const FileTrack& track, const std::string& part) {
  std::multiset<int> result;
  for (const FileSpan& span : track) {
    if (span.name == part) result.insert(span.arguments.value("bucket", -1));
  }
  return result;
}

std::uint64_t bytes(const TraceFile& trace, const std::string& name) {
  std::uint64_t sum = 0;
  for (const auto& [place, track] : trace.tracks) {
    for (const FileSpan& span : track) sum += span.name == name ? span.arguments.at("bytes").get<std::uint64_t>() : 0;
  }
  return sum;
}

TraceFile traced_run(const std::vector<std::string>& overrides, int ranks) {
  const TemporaryFolder folder;
  testing::quick_run(testing::quick_config(overrides), ranks, folder / "run");
  return read_trace(folder / "run" / "trace.json");
}

TEST_SUITE("trainer") {
  TEST_CASE("a length or a time of another rank takes no memory, and ends the timeline with the rank's name") {
    const TemporaryFolder folder;
    LoggingConfig config;
    config.trace = 1;
    for (const std::uint64_t number : {std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
      // Its last whole step, its summary, and the length of its text; the first two may be any numbers.
      constexpr std::size_t kText = 2;
      for (const std::size_t victim : {std::size_t{0}, std::size_t{1}, kText}) {
        std::string error;
        const auto work = [&](comm::Communicator& communicator) {
          StepTimeline timeline(config, 0, communicator, folder / "trace.json");
          timeline.end_step(1, /*is_last_of_run=*/true);
        };
        const auto tamper = [&](const comm::test::Outgoing& message, comm::test::Bytes& bytes) {
          if (message.number == victim) std::memcpy(bytes.data(), &number, std::min(bytes.size(), sizeof(number)));
        };
        comm::run_local(2, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
          if (communicator.rank() == 0) {
            try {
              return work(communicator);
            } catch (const CommError& caught) {
              error = caught.what();
              return;
            }
          }
          comm::test::HostileRank hostile(communicator, tamper);
          try {
            work(hostile);
          } catch (const CommError&) {
            // Rank 0 has ended.
          }
        });
        CAPTURE(error);
        CHECK((victim != kText ? error.empty() : error.find("receiving from rank 1: a text of ") != std::string::npos));
      }
    }
  }

  TEST_CASE("a timeline has a process per rank, whose spans nest on every track") {
    const std::vector<std::vector<std::string>> runs{
        {"compression.method=topk", "compression.fusion_mib=0"},
        {"compression.method=topk", "compression.fusion_mib=0", "compression.overlap=true"},
        {"compression.method=gtopk", "compression.bucket=tensor", "train.gradient_accumulation=2"},
        {"compression.method=oktopk", "network.model=alpha-beta", "network.preset=10gbe"},
        {"compression.method=topk", "compression.overlap=true", "network.model=alpha-beta", "network.preset=10gbe",
         "network.compute=zero", "compression.fusion_mib=0"},
        {"compression.method=dense"},
    };
    for (std::vector<std::string> overrides : runs) {
      CAPTURE(overrides);
      overrides.insert(overrides.end(), {"logging.trace=2", "logging.trace_first=3"});
      const TraceFile trace = traced_run(overrides, 3);
      CHECK(trace.description.at("first_step") == 3);
      CHECK(trace.description.at("last_step") == 4);
      CHECK(trace.tracks.size() == 9);
      for (const auto& [place, track] : trace.tracks) {
        CAPTURE(place.first);
        CAPTURE(place.second);
        CHECK(crossing_span(track) == "");
      }
      for (int rank = 0; rank < 3; ++rank) {
        const FileTrack& steps = trace.tracks.at({rank, "steps"});
        REQUIRE(steps.size() == 2);
        CHECK(steps[0].arguments.at("step") == 3);
        CHECK(steps[1].arguments.at("step") == 4);
        // Both other tracks are inside the steps.
        for (const char* name : {"computing", "exchange"}) {
          for (const FileSpan& span : trace.tracks.at({rank, name})) {
            CHECK(std::ranges::any_of(
                steps, [&](const FileSpan& step) { return span.begin >= step.begin && span.end <= step.end; }));
          }
        }
      }
      CHECK(bytes(trace, "send") == bytes(trace, "receive"));
      CHECK(bytes(trace, "send") > 0);
      CHECK(check_arrows(trace) == messages(trace, "send"));
      CHECK(check_arrows(trace) == messages(trace, "receive"));
    }
  }

  TEST_CASE("a timeline has layers, verbs of every bucket, operations and messages") {
    for (const bool overlaps : {false, true}) {
      const TraceFile trace = traced_run({"compression.method=topk", "compression.fusion_mib=0", "logging.trace=1",
                                          fmt::format("compression.overlap={}", overlaps)},
                                         2);
      const FileTrack& exchange = trace.tracks.at({1, "exchange"});
      const std::multiset<int> all{0, 1, 2, 3};  // the last bucket holds the vectors
      // topk's pass begins the selection, which its own part ends.
      CHECK(buckets(exchange, "compensate_select") == std::multiset<int>{0, 0, 1, 1, 2, 2});
      CHECK(buckets(exchange, "compensate") == std::multiset<int>{3});
      CHECK(buckets(exchange, "settle") == all);
      std::multiset<int> exchanged = buckets(exchange, "exchange");
      CHECK(exchanged.erase(-1) == 1);  // the word on which all agree
      CHECK(exchanged == all);
      const auto on_exchange = counts(exchange), on_computing = counts(trace.tracks.at({1, "computing"}));
      CHECK(on_exchange.at("allgather") >= 3);
      CHECK(on_exchange.at("decode") >= 3);
      CHECK(on_exchange.at("agreement on the step") == 1);
      CHECK((on_exchange.contains("wait for backward")) == overlaps);
      for (const char* name : {"load", "forward", "backward", "optimize", "loss"}) CHECK(on_computing.at(name) == 1);
      for (const char* layer : {"hidden0", "hidden1", "output"}) CHECK(on_computing.at(layer) == 2);
      const auto sent = std::ranges::find(exchange, "send", &FileSpan::name);
      REQUIRE(sent != exchange.end());
      CHECK(sent->arguments.at("peer") == 0);
      const auto settled = std::ranges::find(exchange, "settle", &FileSpan::name);
      CHECK(settled->arguments.at("tensors") == "output.weight");
    }
  }

  TEST_CASE("a timeline has the four verbs of a sparsifier that selects after its pass") {
    const TraceFile trace =
        traced_run({"compression.method=randomk", "compression.fusion_mib=0", "logging.trace=1"}, 2);
    const FileTrack& exchange = trace.tracks.at({0, "exchange"});
    CHECK(buckets(exchange, "compensate") == std::multiset<int>{0, 1, 2, 3});
    CHECK(buckets(exchange, "select") == std::multiset<int>{0, 1, 2});
    CHECK(buckets(exchange, "exchange") == std::multiset<int>{-1, 0, 1, 2, 3});
    CHECK(buckets(exchange, "settle") == std::multiset<int>{0, 1, 2, 3});
  }

  TEST_CASE("a timeline stops at its size, and changes no result") {
    const TemporaryFolder folder;
    const std::vector<std::string> method{"compression.method=topk"};
    const auto without = testing::quick_run(testing::quick_config(method), 2, folder / "without");
    CHECK_FALSE(std::filesystem::exists(folder / "without" / "trace.json"));
    const auto with = testing::quick_run(
        testing::quick_config({"compression.method=topk", "logging.trace=100", "logging.trace_mb=0.08"}), 2,
        folder / "with");
    CHECK(with.parameters == without.parameters);
    const std::filesystem::path file = folder / "with" / "trace.json";
    CHECK(std::filesystem::file_size(file) <= 80000);
    CHECK(std::filesystem::file_size(file) > 5000);
    const TraceFile trace = read_trace(file);
    CHECK(trace.description.at("last_step") == 6);
    for (const auto& [place, track] : trace.tracks) CHECK(crossing_span(track) == "");
    CHECK(trace.tracks.at({0, "steps"}).size() < 6);
    CHECK(trace.description.at("stopped_in_step") == trace.tracks.at({0, "steps"}).size());
    CHECK(check_arrows(trace) > 0);
    CHECK(check_arrows(trace) <= messages(trace, "send"));
  }

  TEST_CASE("a resumed run records its own first steps") {
    const TemporaryFolder folder;
    testing::quick_run(testing::quick_config({"train.max_steps=4"}), 2, folder / "run");
    testing::quick_run(testing::quick_config({"logging.trace=1"}), 2, folder / "run", (folder / "run").string());
    const TraceFile trace = read_trace(folder / "run" / "trace.json");
    CHECK(trace.description.at("first_step") == 5);
    CHECK(trace.description.at("last_step") == 5);
  }
}

}  // namespace
}  // namespace dragonn::trainer

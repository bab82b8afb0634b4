// SPDX-License-Identifier: MIT
/// Tests of a run's reports: the progress line, the notes in a log and the final report.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/units_text.h"
#include "tests/support/text.h"
#include "trainer/metrics/run_report.h"

namespace {

using dragonn::test::contains;

using namespace dragonn;
using namespace dragonn::trainer;

ProgressNumbers numbers() {
  return {.step = 5430,
          .total_steps = 11700,
          .epoch = 13.92,
          .total_epochs = 30,
          .loss = 0.43214,
          .samples_per_second = 1234,
          .bytes_per_step = 951e3,
          .exposed_share = 0.123,
          .seconds_left = 83};
}

Summary summary() {
  Summary summary;
  summary.final_eval = EvalRecord{.step = 16, .epoch = 2, .loss = 2.01, .qualities = {{"accuracy", 0.224}}};
  summary.best_eval = EvalRecord{.step = 8, .epoch = 1, .loss = 2.0, .qualities = {{"accuracy", 0.23}}};
  summary.steps = 16;
  summary.seconds_total = 9.04;
  summary.throughput = 500;
  summary.bytes_sent_total = 4 * 16 * 950e3;
  summary.density_mean = 0.01;
  summary.tensors_sparse = 12;
  summary.tensors_dense = 8;
  summary.world_size = 4;
  summary.parameters_hash = "0123456789abcdef";
  summary.warnings = {"a warning"};
  return summary;
}

RunOutcome outcome() {
  RunOutcome outcome;
  outcome.folder = "runs/a";
  outcome.wall_seconds = 42;
  outcome.dense_bytes = 1.62e6;
  outcome.times.computing = 0.6;
  outcome.times.selecting = 0.1;
  outcome.times.exchanging = 0.3;
  return outcome;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("the progress line fits every width and drops the least important fields first") {
    const std::string whole = progress_line(numbers(), 200);
    for (const char* part : {"46 %", "epoch 13.92/30", "step 5430/11700", "loss 0.4321", "1234 samples/s", "comm 12 %",
                             "951 kB/step", "ETA 1:23"}) {
      CAPTURE(part);
      CHECK(contains(whole, part));
    }
    for (std::size_t columns = 1; columns < 130; ++columns) CHECK(progress_line(numbers(), columns).size() <= columns);
    const std::string usual = progress_line(numbers(), 79);
    CHECK(contains(usual, "comm 12 %"));
    CHECK(contains(usual, "951 kB/step"));
    CHECK_FALSE(contains(usual, "epoch"));
    CHECK(progress_line(numbers(), 45) == "step 5430/11700  loss 0.4321  ETA 1:23");
    CHECK(progress_line(numbers(), 8) == "step 543");
  }

  TEST_CASE("a note has what a log without a terminal lacks") {
    const std::string note = progress_note(numbers());
    for (const char* part : {"epoch 13.92/30", "step 5430/11700", "training loss 0.4321", "1234 samples/s",
                             "951 kB sent per step", "exposed communication 12 %"}) {
      CAPTURE(part);
      CHECK(contains(note, part));
    }
    ProgressNumbers virtual_numbers = numbers();
    virtual_numbers.is_time_virtual = true;
    CHECK(contains(progress_note(virtual_numbers), "1234 samples/s (virtual)"));
  }

  TEST_CASE("the final report begins with time, quality and traffic against dense") {
    const std::vector<std::string> lines = final_report(summary(), outcome());
    CHECK(lines.front() == "Finished in 9.0 s: accuracy 22.40 %, 950 kB/step (1.7x less than dense)");
    const std::string text = joined(lines);
    for (const char* part :
         {"loss 2.0100; best accuracy 23.00 % at epoch 1", "500 samples/s",
          "62.5 ms: computing 60 %, selecting 10 %, exchanging 30 %",
          "950 kB sent per worker and step (dense: 1.62 MB), 60.8 MB in all", "12 sparse at mean density 0.01, 8 dense",
          "runs/a: summary.json", "0123456789abcdef", "warning    a warning"}) {
      CAPTURE(part);
      CHECK(contains(text, part));
    }
  }

  TEST_CASE("the final report says what is virtual, overlapped, dense, or not exchanged at all") {
    Summary other = summary();
    RunOutcome details = outcome();
    other.network.emplace();
    other.network->model = NetworkKind::kAlphaBeta;
    other.network->preset = "10gbe";
    CHECK(final_report(other, details).front().starts_with("Finished in 9.0 s of virtual time: accuracy"));
    CHECK(contains(joined(final_report(other, details)),
                   "network    10 Gbit/s, 50 us latency (10gbe); 42 s of wall time"));
    CHECK(contains(joined(final_report(other, details)), "62.5 ms (virtual): "));

    details = outcome();
    details.times = {
        .computing = 0.8, .selecting = 0.3, .exchanging = 0.3, .exposed = 0.2, .hidden = 0.4, .overlapped = true};
    CHECK(contains(joined(final_report(summary(), details)),
                   "computing 80 %, exposed exchange 20 % (25 ms of it hidden behind computing)"));

    details = outcome();
    details.is_dense = true;
    CHECK_FALSE(contains(final_report(summary(), details).front(), "dense"));
    details.is_dense = false;
    details.dense_bytes = 475e3;
    CHECK(final_report(summary(), details).front().ends_with("(2.0x more than dense)"));

    other = summary();
    other.world_size = 1;
    other.bytes_sent_total = 0;
    CHECK(final_report(other, outcome()).front() ==
          "Finished in 9.0 s: accuracy 22.40 %, one worker, nothing exchanged");
  }

  TEST_CASE("units change where a person's do") {
    CHECK(bytes_text(0) == "0 B");
    CHECK(bytes_text(999.4) == "999 B");
    CHECK(bytes_text(999.6) == "1 kB");
    CHECK(bytes_text(1.234e9) == "1.23 GB");
    CHECK(elapsed_text(9.94) == "9.9 s");
    CHECK(elapsed_text(9.96) == "10 s");
    CHECK(elapsed_text(61) == "1:01");
    CHECK(elapsed_text(3723) == "1:02:03");
    CHECK(percent_text(0) == "0 %");
    CHECK(percent_text(0.001) == "<1 %");
    CHECK(wrapped("one two three", 7) == std::vector<std::string>{"one two", "three"});
    CHECK(wrapped("", 7).empty());
  }
}

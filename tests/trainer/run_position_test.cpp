// SPDX-License-Identifier: MIT
#include "trainer/run/run_position.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"

namespace dragonn::trainer::testing {
namespace {

constexpr std::uint64_t kSamples = 100;
using EpochParts = std::vector<data::EpochPart>;

/// A run over kSamples samples, of which a rest that fills no step is dropped.
RunPosition position_of(std::uint64_t samples_per_step) {
  return {samples_per_step, kSamples / samples_per_step};
}

/// Resumes `run` where `position` is; the data counts samples.
void resume(RunPosition& run, std::uint64_t step, const DataPosition& position) {
  run.resume(step, position, [&](std::uint64_t epoch, std::span<const data::EpochPart> earlier) {
    CHECK(epoch == position.epoch);
    return static_cast<std::size_t>((kSamples - std::min(kSamples, data::samples_in(earlier))) /
                                    run.samples_per_step());
  });
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("without a change of workers a run's steps are those of its schedules") {
    RunPosition run = position_of(10);
    CHECK(run.scheduled(37) == 37);
    CHECK(run.at(37).epoch == 3);
    CHECK(run.at(37).parts == EpochParts{{10, 7}});
    CHECK(run.at(40).parts == EpochParts{{10, 0}});
    RunPosition resumed = position_of(10);
    resume(resumed, 37, run.at(37));
    for (const std::uint64_t step : {37, 38, 40, 99}) {
      CHECK(resumed.scheduled(step) == step);
      CHECK(resumed.at(step).parts == run.at(step).parts);
    }
  }

  TEST_CASE("epochs go on behind the samples that are done, with fewer workers and with more") {
    RunPosition run = position_of(12);  // 8 steps of 12 in an epoch
    const DataPosition middle = run.at(11);
    CHECK(middle.samples() == 36);

    RunPosition fewer = position_of(5);  // 20 steps; the rest of 64 samples is 12
    resume(fewer, 11, middle);
    CHECK(fewer.scheduled(11) == 28);
    CHECK(fewer.epoch(11) == 1);
    CHECK(fewer.ends_epochs(22, 23, 1));
    CHECK(fewer.epochs_done(23) == 2.0);
    CHECK(fewer.step_at(60) == 43);
    CHECK(fewer.at(14).parts == EpochParts{{12, 3}, {5, 3}});
    CHECK(fewer.at(14).samples() == 51);
    CHECK(fewer.at(23).parts == EpochParts{{5, 0}});

    RunPosition more = position_of(30);  // 3 steps; the rest is 2
    resume(more, 11, middle);
    CHECK(more.scheduled(11) == 4);
    CHECK(more.at(12).parts == EpochParts{{12, 3}, {30, 1}});
    CHECK(more.ends_epochs(12, 13, 2));
    CHECK(more.step_at(3) == 10);
    CHECK(more.step_at(0) == 7);
  }

  TEST_CASE("a second change in an epoch keeps the parts of the first, and a resume without one continues its own") {
    RunPosition run = position_of(12);
    RunPosition second = position_of(5);
    resume(second, 3, run.at(3));
    const DataPosition middle = second.at(7);
    CHECK(middle.parts == EpochParts{{12, 3}, {5, 4}});
    RunPosition same = position_of(5);
    resume(same, 7, middle);
    for (const std::uint64_t step : {7, 8, 15, 20, 90}) {
      CHECK(same.scheduled(step) == second.scheduled(step));
      CHECK(same.at(step).parts == second.at(step).parts);
    }
    RunPosition back = position_of(12);  // 44 samples are left: 3 steps of 8
    resume(back, 7, middle);
    CHECK(back.scheduled(7) == 5);
    CHECK(back.at(8).parts == EpochParts{{12, 3}, {5, 4}, {12, 1}});
  }

  TEST_CASE("an epoch whose rest fills no step is over, and one that begins has no parts to continue") {
    RunPosition run = position_of(30);
    RunPosition larger = position_of(50);
    resume(larger, 2, run.at(2));
    CHECK(larger.scheduled(2) == 2);
    CHECK(larger.at(2).epoch == 1);
    CHECK(larger.at(2).parts == EpochParts{{50, 0}});
    RunPosition at_begin = position_of(10);
    at_begin.resume(3, run.at(3), [](std::uint64_t, std::span<const data::EpochPart>) -> std::size_t {
      FAIL("there is nothing to deal out");
      return 0;
    });
    CHECK(at_begin.scheduled(3) == 10);
  }

  TEST_CASE("a position is saved and read, and one without samples is refused") {
    Archive archive;
    save_position(archive, {.epoch = 4, .parts = {{12, 3}, {5, 0}}});
    CHECK(load_position(archive).epoch == 4);
    CHECK(load_position(archive).parts == EpochParts{{12, 3}, {5, 0}});
    Archive bad;
    save_position(bad, {.epoch = 4, .parts = {{0, 3}}});
    CHECK_THROWS_AS(load_position(bad), DataError);
  }
}

}  // namespace dragonn::trainer::testing

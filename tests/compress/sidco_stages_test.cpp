// SPDX-License-Identifier: MIT
#include "compress/sidco/sidco_stages.h"

#include <vector>

#include <doctest/doctest.h>

using namespace dragonn;
using namespace dragonn::compress;

namespace {

using Stages = std::vector<std::int64_t>;

StageRules rules_of(StageAdaptation adaptation, std::int64_t initial = 1) {
  return {.adaptation = adaptation, .initial = initial, .window = 1};
}

/// M of successive windows where M stages give ratios[M - 1].
Stages follow(const StageRules& rules, const std::vector<double>& ratios, std::size_t windows) {
  StageSearch search(rules);
  Stages result;
  for (std::size_t window = 0; window < windows; ++window) {
    result.push_back(search.stages(0.001));
    search.observe(ratios.at(static_cast<std::size_t>(result.back()) - 1), 0.001);
  }
  return result;
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("the most stages are ceil(log2(1 / density)), at least one") {
    CHECK(max_stages(0.001) == 10);
    CHECK(max_stages(1.0 / 1024) == 10);
    CHECK(max_stages(0.2) == 3);
    CHECK(max_stages(0.25) == 2);
    CHECK(max_stages(0.9) == 1);
    CHECK(max_stages(1) == 1);
  }

  TEST_CASE("at a ratio of 3 the paper's rule stays at one stage, hillclimb goes on to two") {
    CHECK(follow(rules_of(StageAdaptation::kPaper), {3, 3, 3}, 3) == Stages{1, 1, 1});
    CHECK(follow(rules_of(StageAdaptation::kHillclimb), {3, 3, 3}, 3) == Stages{1, 1, 2});
  }

  TEST_CASE("hillclimb finds the stages of the measured tails: half-normal 4, Pareto 3, Laplace 1") {
    CHECK(follow(rules_of(StageAdaptation::kHillclimb), {0, .09, .69, 1.07}, 6) == Stages{1, 2, 3, 4, 4, 4});
    CHECK(follow(rules_of(StageAdaptation::kHillclimb), {13.4, 4.2, 1.08, .51}, 6) == Stages{1, 1, 2, 3, 3, 3});
    CHECK(follow(rules_of(StageAdaptation::kHillclimb), {1}, 3) == Stages{1, 1, 1});
  }

  TEST_CASE("the paper's rule goes up to the half-normal's four stages, and stays at one for a heavy tail") {
    CHECK(follow(rules_of(StageAdaptation::kPaper), {0, .09, .69, 1.07}, 6) == Stages{1, 2, 3, 4, 4, 4});
    CHECK(follow(rules_of(StageAdaptation::kPaper), {13.4, 4.2, 1.08, .51}, 4) == Stages{1, 1, 1, 1});
    CHECK(follow(rules_of(StageAdaptation::kPaper), std::vector<double>(10, 0.0), 12).back() == 10);
  }

  TEST_CASE("fixed stages stay, whatever the ratio and the density") {
    StageSearch search(rules_of(StageAdaptation::kFixed, 7));
    for (int window = 0; window < 5; ++window) search.observe(0, 0.3);
    CHECK(search.stages(0.3) == 7);
  }

  TEST_CASE("where no number of stages is in the band, hillclimb holds the best after two turns and searches again") {
    // 1 (bound), 1, 2, 3, back to 2 (worse: turn), 1 (worse: turn): 3 was the best. Then the other direction first: 2
    // is worse, 3, bound.
    const std::vector<double> ratios{9, 3, 0.4, 0.1};
    const Stages stages = follow(rules_of(StageAdaptation::kHillclimb), ratios, 60);
    CHECK(Stages(stages.begin(), stages.begin() + 6) == Stages{1, 1, 2, 3, 2, 1});
    CHECK(Stages(stages.begin() + 6, stages.begin() + 26) == Stages(20, 3));
    CHECK(Stages(stages.begin() + 26, stages.end()) != Stages(34, 3));
  }

  TEST_CASE("a search after a hold starts in the other direction, and may find what the first could not") {
    // From 1 up to 2, back to 1, which is worse, and the bound turns it again: 3 is never tried.
    const std::vector<double> ratios{0, 1.36, 1.02};
    const Stages stages = follow(rules_of(StageAdaptation::kHillclimb), ratios, 40);
    CHECK(Stages(stages.begin(), stages.begin() + 7) == Stages{1, 2, 1, 1, 2, 1, 2});
    CHECK(stages.back() == 3);
  }

  TEST_CASE("a window is decided by the mean of its ratios, all of them") {
    StageSearch search({.adaptation = StageAdaptation::kPaper, .initial = 2, .window = 4});
    // Three of four divided by four would be 0.75, below the band.
    for (const double ratio : {0.9, 1.1, 1.0, 1.0}) search.observe(ratio, 0.001);
    CHECK(search.stages(0.001) == 2);
    for (int call = 0; call < 3; ++call) search.observe(5, 0.001);
    CHECK(search.stages(0.001) == 2);
    search.observe(5, 0.001);
    CHECK(search.stages(0.001) == 1);
  }

  TEST_CASE("a higher density bounds the stages at once") {
    StageSearch search(rules_of(StageAdaptation::kHillclimb, 9));
    CHECK(search.stages(0.001) == 9);
    CHECK(search.stages(0.1) == 4);
    search.observe(1, 0.1);
    CHECK(search.stages(0.001) == 4);
  }

  TEST_CASE("a search restored at any window goes on as if it had not stopped") {
    const std::vector<double> ratios{9, 3, 0.4, 0.1};
    StageRules rules = rules_of(StageAdaptation::kHillclimb);
    rules.window = 2;
    StageSearch search(rules);
    for (int call = 0; call < 140; ++call) {
      Archive archive;
      search.save(archive, "search/");
      StageSearch restored(rules);
      restored.load(archive, "search/");
      const double ratio = ratios.at(static_cast<std::size_t>(search.stages(0.001)) - 1);
      search.observe(ratio, 0.001);
      restored.observe(ratio, 0.001);
      Archive after, after_restored;
      search.save(after, "");
      restored.save(after_restored, "");
      REQUIRE(after.fields() == after_restored.fields());
    }
  }
}

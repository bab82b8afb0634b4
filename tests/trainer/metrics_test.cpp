// SPDX-License-Identifier: MIT
#include "trainer/metrics/metrics.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "tests/trainer/quick_run.h"

namespace dragonn::trainer::testing {
namespace {

std::vector<nlohmann::json> step_lines(const std::filesystem::path& folder) {
  std::vector<nlohmann::json> steps;
  std::ifstream lines(folder / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    if (json.at("kind") == "step") steps.push_back(std::move(json));
  }
  return steps;
}

std::vector<nlohmann::json> steps_of_run(const std::vector<std::string>& overrides, int workers) {
  const TemporaryFolder folder;
  quick_run(quick_config(overrides), workers, folder.path());
  return step_lines(folder.path());
}

/// Returns a writer's line for a record.
nlohmann::json written(const StepRecord& record) {
  const TemporaryFolder folder;
  MetricsWriter(folder.path() / "metrics.jsonl", 0, TimeKind::kWall).write(record);
  return step_lines(folder.path()).at(0);
}

nlohmann::json mean_max(double mean, double max) {
  return {{"mean", mean}, {"max", max}};
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("a resumed run keeps the lines up to its step, whatever else the file has") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "metrics.jsonl";
    std::ofstream(path)
        << "{\"step\":3}\n{\"step\":\"4\"}\n{\"step\":1e300}\n{\"step\":5}\n[]\nno JSON\n{\"step\":4}\ntorn";
    MetricsWriter(path, 4, TimeKind::kWall);
    std::ifstream lines(path);
    std::string text;
    std::getline(lines, text, '\0');
    CHECK(text == "{\"step\":3}\n{\"step\":\"4\"}\n{\"step\":4}\n");
  }

  TEST_CASE("a file whose last lines are dropped stays the same file") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "metrics.jsonl";
    std::ofstream(path) << "{\"step\":3}\n{\"step\":4}\n{\"step\":5}\ntorn";
    std::ofstream other(path, std::ios::app);  // of a process that does not know yet that it is left behind
    MetricsWriter(path, 4, TimeKind::kWall);
    other << "{}\n" << std::flush;
    CHECK(read_text_file(path) == "{\"step\":3}\n{\"step\":4}\n{}\n");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  }

  TEST_CASE("an exact method selects the k of its step lines, each rank alone or all together") {
    for (const char* method : {"topk", "cltk"}) {
      CAPTURE(method);
      const std::vector<nlohmann::json> steps = steps_of_run({std::string("compression.method=") + method}, 3);
      for (const nlohmann::json& json : steps) {
        const auto selected = json.at("selected").get<std::vector<double>>();
        // k is rounded where the ranks share it; Approx tells integers of this size apart.
        CHECK(json.at("k").get<double>() * 3 ==
              doctest::Approx(std::accumulate(selected.begin(), selected.end(), 0.0)));
      }
      CHECK(steps.size() == 6);
    }
  }

  TEST_CASE("a step's traffic is the mean and the largest over ranks, by phase") {
    StepRecord record;
    comm::run_local(3, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
      const auto rank = static_cast<std::uint64_t>(communicator.rank());
      StepSample sample;
      sample.count = 1;
      sample.traffic[static_cast<std::size_t>(comm::Phase::kExchange)] = {100 * rank, 30, rank, 7};
      sample.traffic[static_cast<std::size_t>(comm::Phase::kHeader)] = {1, 2, 3, 4};
      StepRecord mine;
      reduce_step(communicator, sample, mine);
      if (rank == 0) record = mine;
    });
    const nlohmann::json line = written(record);
    CHECK(line.at("bytes_sent") == mean_max(101, 201));
    CHECK(line.at("bytes_received") == mean_max(32, 32));
    CHECK(line.at("messages") == mean_max(4, 5));
    const nlohmann::json& traffic = line.at("traffic");
    CHECK(traffic.size() == 2);  // nothing moved in the other phases
    CHECK(traffic.at("exchange").at("bytes_sent") == mean_max(100, 200));
    CHECK(traffic.at("exchange").at("bytes_received") == mean_max(30, 30));
    CHECK(traffic.at("exchange").at("messages") == mean_max(1, 2));
    CHECK(traffic.at("header").at("messages") == mean_max(3, 3));
  }

  TEST_CASE("densities, padding and imbalance are ratios of counts, and beyond 64 ranks the counts are summarized") {
    StepRecord record;
    record.counts = {.numel = 200,
                     .target = 6,
                     .selected = {30, 10, 20},
                     .global = 40,
                     .threshold = 0.5,
                     .lost_mass = std::nan(""),
                     .padded = 90,
                     .owned = 40,
                     .owned_padded = 60};
    nlohmann::json line = written(record);
    CHECK(line.at("density_local") == 0.1);
    CHECK(line.at("density_global") == 0.2);
    CHECK(line.at("padding_overhead") == 1.5);  // the specification's example: 3 * 30 / 60
    CHECK(line.at("imbalance") == 1.5);
    CHECK(line.at("selected") == nlohmann::json({30, 10, 20}));
    CHECK_FALSE(line.contains("lost_mass"));
    CHECK_FALSE(line.contains("bits_per_entry"));
    record.bits_per_entry = 40.5;
    CHECK(written(record).at("bits_per_entry") == 40.5);
    record.counts.selected.assign(64, 2);
    CHECK(written(record).at("selected").size() == 64);
    record.counts.selected.push_back(67);
    line = written(record);
    CHECK(line.at("selected") == nlohmann::json({{"min", 2}, {"mean", 3}, {"max", 67}}));
    record.counts.owned = 0;
    record.counts.lost_mass = 0.25;
    line = written(record);
    CHECK_FALSE(line.contains("imbalance"));
    CHECK(line.at("lost_mass") == 0.25);
  }

  TEST_CASE("a run says what each method has to say of its traffic") {
    for (const char* method : {"oktopk", "exdyna", "dsa"}) {
      CAPTURE(method);
      for (const nlohmann::json& line : steps_of_run({std::string("compression.method=") + method}, 3)) {
        CHECK(line.at("imbalance") >= 1.0);
        CHECK(line.at("imbalance") <= 3.0);
        CHECK(line.at("padding_overhead") >= 1.0);
        const nlohmann::json& traffic = line.at("traffic");
        const double payload = traffic.at("exchange").at("bytes_sent").at("mean");
        const double headers = traffic.at("header").at("bytes_sent").at("mean");
        CHECK(line.at("bytes_sent").at("mean").get<double>() == doctest::Approx(payload + headers));
      }
    }
    for (const nlohmann::json& line : steps_of_run({"compression.method=exdyna"}, 3)) {
      CHECK(line.at("imbalance") == line.at("padding_overhead"));  // one bucket of disjoint partitions
    }
    for (const nlohmann::json& line : steps_of_run({"compression.method=topk"}, 3)) {
      CHECK(line.at("padding_overhead") == 1.0);
      CHECK_FALSE(line.contains("imbalance"));
    }
    // The loss of paper mode is measured with messages that are not the method's own.
    for (const nlohmann::json& line :
         steps_of_run({"compression.method=gtopk", "compression.gtopk.put_back=paper"}, 4)) {
      CHECK(line.at("lost_mass") >= 0.0);
      CHECK(line.at("traffic").contains("metrics"));
    }
  }
}

}  // namespace dragonn::trainer::testing

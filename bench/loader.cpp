// SPDX-License-Identifier: MIT
/// `dragonn-bench loader`: the samples per second that the loader of a data set prepares, without training.
#include "data/loader.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/benchmark.h"
#include "bench/device_timer.h"
#include "bench/options.h"
#include "core/error.h"
#include "core/program.h"
#include "data/dataset.h"

namespace dragonn::bench {
namespace {

/// Returns the memory of this process that is no part of a file, in MB.
double resident_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) * 1024e-6;
  }
  return 0;
}

class LoaderBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--data", data_, "Data set to read");
    command.add_option("--path", path_, "Folder of its files");
    command.add_option("--batch", batch_, "Samples of a batch")->check(CLI::Range(1, 1 << 20));
    add_list_option(command, "--threads", threads_, "Numbers of decoding threads, for data sets that have them")
        ->check(CLI::Range(1, 256));
    command.add_option("--rounds", rounds_, "Epochs of each row; the table shows medians")->check(CLI::Range(1, 1000));
    command.add_option("--steps", steps_, "Batches of a round; 0: an epoch")->check(CLI::NonNegativeNumber);
    command.add_option("--set", assignments_, "Setting of the data set, as image_folder.side=160");
  }

  Rows run(Progress& progress) override {
    const data::DatasetEntry& entry = Registry<data::DatasetEntry>::instance().at(data_);
    MethodSettings settings = method_settings<data::DatasetEntry>({data_}, assignments_);
    Settings& chosen = settings.at(data_);
    const bool has_threads = chosen.contains("decode_threads");
    const std::vector<int> threads = has_threads ? threads_ : std::vector<int>{1};
    progress.plan(static_cast<double>(threads.size()) * rounds_);
    Rows rows;
    for (const int count : threads) {
      if (has_threads) chosen.set("decode_threads", std::int64_t{count});
      const data::DatasetSplits splits = entry.load(chosen, path_, /*seed=*/1);
      rows.push_back(measure(splits.train, count, progress));
    }
    return rows;
  }

 private:
  nlohmann::ordered_json measure(const std::shared_ptr<const data::Dataset>& dataset, int threads,
                                 Progress& progress) const {
    data::Loader loader(dataset, {.batch = batch_});
    const auto limit = static_cast<std::size_t>(quick_limit().value_or(0));
    const std::size_t asked = limit != 0 ? limit : steps_;
    const std::size_t steps = asked == 0 ? loader.steps_per_epoch() : asked;
    std::vector<double> rates, memory;
    loader.next();  // opens what is opened once
    for (int round = 0; round < rounds_; ++round) {
      const double seconds = seconds_of([&] {
        for (std::size_t step = 0; step < steps; ++step) loader.next();
      });
      rates.push_back(static_cast<double>(steps * batch_) / seconds);
      memory.push_back(resident_mb());
      progress.advance(1, fmt::format("{} threads, round {}", threads, round + 1));
    }
    return {{"data", data_},
            {"samples", dataset->size()},
            {"batch", batch_},
            {"threads", threads},
            {"steps", steps},
            {"samples_per_second", percentile(rates, 0.5)},
            {"samples_per_second_lowest", std::ranges::min(rates)},
            {"samples_per_second_highest", std::ranges::max(rates)},
            {"resident_mb_first", memory.front()},
            {"resident_mb_last", memory.back()}};
  }

  std::string data_ = "image_folder";
  std::string path_;
  std::size_t batch_ = 128;
  std::vector<int> threads_{1, 2};
  int rounds_ = 3;
  std::size_t steps_ = 0;
  std::vector<std::string> assignments_;
};

const Registration<BenchmarkEntry> registration{
    {{"loader", "Measures how many samples per second the loader of a data set prepares"},
     [] { return std::make_unique<LoaderBenchmark>(); },
     {.conditions = {"data", "samples", "batch", "steps"},
      .results = {"threads", "samples_per_second", "samples_per_second_lowest", "samples_per_second_highest",
                  "resident_mb_first", "resident_mb_last"}},
     {"loader --path data/imagenet", "loader --data synthetic_images --steps 100",
      "loader --path data/imagenet --set image_folder.side=160 --threads 4 --json -"}}};

}  // namespace
}  // namespace dragonn::bench

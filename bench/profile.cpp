// SPDX-License-Identifier: MIT
/// `dragonn-bench profile`: seconds of selecting and decoding by tensor size, which the cost model of `dragonn-train`
/// (compression.select_tensors = "cost_model") uses.
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>

#include "bench/benchmark.h"
#include "bench/options.h"
#include "codec/values/value_codec.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "trainer/cost_model/cost_model_measure.h"

namespace dragonn::bench {
namespace {

template <class Entry>
Component with_defaults(const std::string& name) {
  return {name, Settings(Registry<Entry>::instance().at(name).settings)};
}

class ProfileBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    add_list_option(command, "--sparsifier", sparsifiers_,
                    "Sparsifiers or quantizers to measure, or all sparsifiers (dragonn-train --list names them)");
    command.add_option("--memory", memory_, "Memory (error feedback) that accumulates in the same pass");
    add_list_option(command, "--density", densities_, "Share of the elements to select, in (0, 1]");
    add_list_option(command, "--ranks", ranks_,
                    "Workers of the runs that will read the profile: that many lists are decoded")
        ->check(CLI::Range(2, 4096));
    command
        .add_option("--min-numel", smallest_,
                    "Elements of the smallest tensor; sizes are the powers of two around both bounds")
        ->check(CLI::Range(std::size_t{1}, kLargest));
    command.add_option("--max-numel", largest_, "Elements of the largest tensor")
        ->check(CLI::Range(std::size_t{1}, kLargest));
    command.add_option("--decode", decode_, "Form of the decoded sum")->check(CLI::IsMember({"sparse", "dense"}));
    command.add_option("--momentum", momentum_, "Momentum, for memories that apply it")->check(CLI::Range(0.0, 1.0));
    add_device_option(command, device_);
    add_threads_option(command, threads_);
  }

  Rows run(Progress& progress) override {
    check();
    omp_set_num_threads(threads_);
    const std::vector<std::size_t> sizes = trainer::profile_sizes(smallest_, largest_, /*factor=*/2, kLargest);
    const Device device = device_of(device_);
    const Buffer<float> gradient = trainer::profile_gradient(sizes.back(), device);
    const double per_exchange = std::accumulate(sizes.begin(), sizes.end(), 0.0);
    progress.plan(per_exchange * static_cast<double>(sparsifiers_.size() * densities_.size() * ranks_.size()));
    Rows rows;
    for (const std::string& sparsifier : sparsifiers_) {
      for (const double density : is_quantizer(sparsifier) ? std::vector<double>{1} : densities_) {
        for (const int ranks : ranks_) {
          trainer::ProfiledExchange exchange{.memory = with_defaults<compress::MemoryEntry>(memory_),
                                             .decode_dense = decode_ == "dense",
                                             .density = density,
                                             .ranks = ranks,
                                             .momentum = momentum_,
                                             .device = device};
          if (is_quantizer(sparsifier)) {
            exchange.quantizer = with_defaults<codec::QuantizerEntry>(sparsifier);
          } else {
            exchange.sparsifier = with_defaults<compress::SparsifierEntry>(sparsifier);
          }
          for (const std::size_t numel : sizes) {
            const trainer::ProfileRow row = measure_profile(exchange, gradient.view().subview(0, numel));
            rows.push_back(nlohmann::ordered_json::parse(to_json(row)));
            progress.advance(static_cast<double>(numel), fmt::format("{}, {} elements", sparsifier, numel));
          }
        }
      }
    }
    return rows;
  }

 private:
  static constexpr std::size_t kLargest = std::size_t{1} << 28;

  static bool is_quantizer(const std::string& name) {
    return Registry<codec::QuantizerEntry>::instance().contains(name);
  }

  void check() {
    const auto& registry = Registry<compress::SparsifierEntry>::instance();
    if (sparsifiers_ == std::vector<std::string>{"all"}) sparsifiers_ = registry.names();
    for (const std::string& name : sparsifiers_) {
      if (!is_quantizer(name)) registry.at(name);
    }
    Registry<compress::MemoryEntry>::instance().at(memory_);
    for (const double density : densities_) {
      if (!(density > 0 && density <= 1)) throw ConfigError(fmt::format("--density {}: expected (0, 1]", density));
    }
    if (smallest_ > largest_)
      throw ConfigError(fmt::format("--min-numel {} is above --max-numel {}", smallest_, largest_));
  }

  std::vector<std::string> sparsifiers_{"all"};
  std::string memory_ = "residual";
  std::vector<double> densities_{0.01};
  std::vector<int> ranks_{4};
  std::size_t smallest_ = std::size_t{1} << 10;
  std::size_t largest_ = std::size_t{1} << 24;
  std::string decode_ = "sparse";
  float momentum_ = 0.9f;
  std::string device_ = "cpu";
  int threads_ = 1;
};

const Registration<BenchmarkEntry> registration{
    {{"profile", "Measures by tensor size, for the cost model of dragonn-train"},
     [] { return std::make_unique<ProfileBenchmark>(); },
     {.conditions = {"device", "memory", "decode", "density", "ranks", "threads"},
      .results = {"sparsifier", "numel", "encode_seconds", "decode_seconds", "runs"}},
     {"profile --sparsifier topk --density 0.01 --ranks 4 --json profile.json",
      "profile --sparsifier dragonn,dgc --max-numel 1048576"}}};

}  // namespace
}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// `dragonn-bench decode`: seconds to sum the sparse lists of K ranks, with the code of the collective `allgather`, or
/// with a GPU's kernels.
#include "kernels/gradient/decode.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>

#include "bench/benchmark.h"
#include "bench/device_timer.h"
#include "bench/options.h"
#include "comm/sparse/batch_decoder.h"
#include "compress/sparsifier.h"
#include "kernels/gradient/select.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::bench {
namespace {

/// Draws the ranks' selections: k places of n each, without replacement, as the largest of independent values lie.
std::vector<SparseVector> draw_lists(std::size_t ranks, std::size_t numel, double density, const Device& device) {
  const std::vector<float> ones(numel, 1.0f);
  const std::size_t k = compress::target_count(density, numel);
  const auto& method = Registry<compress::SparsifierEntry>::instance().at("randomk");
  const auto sparsifier = method.make(Settings(method.settings), numel, Device{});
  std::vector<SparseVector> lists;
  kernels::PassResult no_pass;
  SparseVector selected;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    // The rank stands in for the step, so that each draws its own whatever the method's settings.
    sparsifier->select({.step = rank, .density = density, .k = k}, no_pass, std::span<const float>(ones), selected);
    kernels::copy_entries(selected, lists.emplace_back(device));
  }
  return lists;
}

using Lists = std::span<const SparseVector>;

/// Ways to sum lists: "sparse" decodes all of them into one dense vector (DRAGONN, section 4.3), "coo" into one sparse
/// list; "dense" makes every list a dense vector and adds these up, the baseline of DRAGONN's paper. The ways of a
/// device share their memory.
using Decodings = std::map<std::string, std::function<void(Lists)>>;

/// Returns the ways of the collectives' own code.
Decodings decodings_on_host(std::size_t numel) {
  const auto decoder = std::make_shared<comm::BatchDecoder>(numel);
  const auto dense = std::make_shared<std::vector<float>>(numel), of_one = std::make_shared<std::vector<float>>(numel);
  const auto add = [decoder](Lists lists) {
    for (const SparseVector& list : lists) decoder->add(list);
  };
  return {{"sparse",
           [=](Lists lists) {
             add(lists);
             decoder->finish_dense(*dense);
           }},
          {"coo",
           [=, sum = std::make_shared<SparseVector>()](Lists lists) {
             add(lists);
             decoder->finish(*sum);
           }},
          {"dense", [=](Lists lists) {
             std::ranges::fill(*dense, 0.0f);
             for (const SparseVector& list : lists) {
               std::ranges::fill(*of_one, 0.0f);
               comm::add_to_dense(list, *of_one);
               add_all(*of_one, *dense);
             }
           }}};
}

/// Returns the ways of the kernels of a device.
Decodings decodings_on(std::size_t numel, const Device& device) {
  const auto dense = std::make_shared<Buffer<float>>(numel, device),
             of_one = std::make_shared<Buffer<float>>(numel, device);
  return {{"sparse",
           [=](Lists lists) {
             kernels::fill(0, dense->view());
             for (const SparseVector& list : lists) kernels::scatter_add(list, dense->view());
           }},
          {"coo",
           [decoder = std::make_shared<kernels::ListDecoder>(numel, device),
            sum = std::make_shared<SparseVector>(device)](Lists lists) {
             for (const SparseVector& list : lists) decoder->add(list.indices.view(), list.values.view());
             decoder->finish(*sum);
           }},
          {"dense", [=](Lists lists) {
             kernels::fill(0, dense->view());
             for (const SparseVector& list : lists) {
               kernels::fill(0, of_one->view());
               kernels::scatter_add(list, of_one->view());
               kernels::add(of_one->view(), dense->view(), dense->view());
             }
           }}};
}

class DecodeBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    add_device_option(command, device_name_);
    add_list_option(command, "--ranks", ranks_, "Numbers of ranks; each has one list")->check(CLI::Range(1, 4096));
    command.add_option("--numel", numel_, "Elements of the bucket")->check(gradient_sizes());
    command.add_option("--density", density_, "Share of the elements in each list, in (0, 1]");
    add_list_option(
        command, "--decode", decodings_,
        "Ways to sum. sparse: add all lists into one dense vector, window by window; coo: add all lists into one "
        "sparse list; dense: make a dense vector of each list and add these up")
        ->check(CLI::IsMember(decodings_));
    add_rounds_option(command, rounds_);
  }

  Rows run(Progress& progress) override {
    const Device device = device_of(device_name_);
    omp_set_num_threads(1);  // as each rank decodes
    const std::size_t k = compress::target_count(density_, numel_);
    const std::vector<SparseVector> lists =
        draw_lists(static_cast<std::size_t>(std::ranges::max(ranks_)), numel_, density_, device);
    const Decodings decodings = device.is_cpu() ? decodings_on_host(numel_) : decodings_on(numel_, device);
    const double lists_per_round = std::accumulate(ranks_.begin(), ranks_.end(), 0.0);
    progress.plan(lists_per_round * (rounds_ + 1) * static_cast<double>(decodings_.size()));
    Rows rows;
    for (const std::string& name : decodings_) {
      // Rounds go over all numbers of ranks, so that other work on the machine affects them alike.
      std::vector<std::vector<double>> seconds(ranks_.size());
      for (int round = -1; round < rounds_; ++round) {
        for (std::size_t which = 0; which < ranks_.size(); ++which) {
          const Lists used = Lists(lists).first(static_cast<std::size_t>(ranks_[which]));
          const double taken = seconds_on(device, [&] { decodings.at(name)(used); });
          if (round >= 0) seconds[which].push_back(taken);  // the first touches the memory
          progress.advance(ranks_[which], fmt::format("{} of {} ranks, round {}", name, ranks_[which], round + 1));
        }
      }
      for (std::size_t which = 0; which < ranks_.size(); ++which) {
        rows.push_back(row(name, ranks_[which], k, seconds[which]));
      }
      append_ratios(rows, ranks_.size());
    }
    return rows;
  }

 private:
  nlohmann::ordered_json row(const std::string& decoding, int ranks, std::size_t k,
                             const std::vector<double>& seconds) const {
    const double median = percentile(seconds, 0.5);
    const auto bytes = static_cast<double>(numel_ * sizeof(float));
    return {{"decode", decoding},
            {"device", device_name_},
            {"ranks", ranks},
            {"numel", numel_},
            {"density", density_},
            {"entries", k * static_cast<std::size_t>(ranks)},
            {"seconds_median", median},
            {"seconds_p10", percentile(seconds, 0.1)},
            {"seconds_p90", percentile(seconds, 0.9)},
            {"gigabytes_per_second", bytes / median * 1e-9}};
  }

  /// Adds of_two: the time of each of the last rows over that of two ranks, if that was measured.
  static void append_ratios(Rows& rows, std::size_t count) {
    const auto first = rows.end() - static_cast<std::ptrdiff_t>(count);
    const auto two = std::find_if(first, rows.end(), [](const auto& row) { return row["ranks"] == 2; });
    const double seconds = two == rows.end() ? 0 : (*two)["seconds_median"].get<double>();
    for (auto row = first; row != rows.end(); ++row) {
      (*row)["of_two"] = nullptr;
      if (seconds > 0) (*row)["of_two"] = (*row)["seconds_median"].get<double>() / seconds;
    }
  }

  std::string device_name_ = "cpu";
  std::vector<int> ranks_{2, 4, 8, 16, 32, 64};
  std::size_t numel_ = std::size_t{1} << 24;
  double density_ = 0.001;
  std::vector<std::string> decodings_{"sparse", "coo", "dense"};
  int rounds_ = 15;
};

const Registration<BenchmarkEntry> registration{
    {{"decode", "Measures how long the sum of several ranks' sparse lists takes"},
     [] { return std::make_unique<DecodeBenchmark>(); },
     {.conditions = {"device", "numel", "density"},
      .results = {"decode", "ranks", "entries", "seconds_median", "gigabytes_per_second", "of_two"}},
     {"decode", "decode --ranks 4,16 --numel 1000000 --density 0.01", "decode --device cuda --decode coo --json -"}}};

}  // namespace
}  // namespace dragonn::bench

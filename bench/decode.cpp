// SPDX-License-Identifier: MIT
/// `dragonn-bench decode`: seconds to sum the sparse lists of K ranks, with the code of the collective `allgather`.
#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <omp.h>

#include "bench/bandwidth.h"
#include "bench/benchmark.h"
#include "bench/timing.h"
#include "comm/sparse/batch_decoder.h"
#include "compress/sparsifier.h"
#include "kernels/select.h"

namespace dragonn::bench {
namespace {

/// The ranks' selections: k places of n each, drawn without replacement, as the largest of independent values lie.
std::vector<SparseVector> draw_lists(std::size_t ranks, std::size_t numel, double density) {
  const std::vector<float> ones(numel, 1.0f);
  const std::size_t k = compress::target_count(density, numel);
  const auto& method = Registry<compress::SparsifierEntry>::instance().at("randomk");
  const auto sparsifier = method.make(Settings(method.settings), numel, Device{});
  std::vector<SparseVector> lists(ranks);
  SparseVector selected;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    // The rank stands in for the step, so that each draws its own whatever the method's settings.
    sparsifier->select({.step = rank, .density = density, .k = k}, {}, std::span<const float>(ones), selected);
    kernels::copy_entries(selected, lists[rank]);
  }
  return lists;
}

/// Where the lists are summed.
struct Workplace {
  explicit Workplace(std::size_t numel) : decoder(numel), dense(numel), of_one(numel) {}

  comm::BatchDecoder decoder;
  SparseVector sum;
  std::vector<float> dense;
  std::vector<float> of_one;  ///< a dense vector for one list
};

using Lists = std::span<const SparseVector>;

void add_lists(Lists lists, Workplace& place) {
  for (const SparseVector& list : lists) place.decoder.add(comm::view_coo(list));
}

/// Batched decoding into one dense vector: DRAGONN, section 4.3.
void decode_sparse(Lists lists, Workplace& place) {
  add_lists(lists, place);
  place.decoder.finish_dense(place.dense);
}

/// Batched decoding into one sparse list.
void decode_coo(Lists lists, Workplace& place) {
  add_lists(lists, place);
  place.decoder.finish(place.sum);
}

/// Every list becomes a dense vector, and these are added up: what DRAGONN compares its decoding with.
void decode_dense(Lists lists, Workplace& place) {
  std::ranges::fill(place.dense, 0.0f);
  for (const SparseVector& list : lists) {
    std::ranges::fill(place.of_one, 0.0f);
    comm::add_to_dense(comm::view_coo(list), place.of_one);
    add_all(place.of_one, place.dense);
  }
}

struct Decoding {
  std::string name;
  void (*run)(Lists, Workplace&);
};

const std::vector<Decoding>& decodings() {
  static const std::vector<Decoding> table{{"sparse", decode_sparse}, {"coo", decode_coo}, {"dense", decode_dense}};
  return table;
}

class DecodeBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--ranks", ranks_, "lists to sum")
        ->delimiter(',')
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    command.add_option("--numel", numel_, "elements of the bucket")
        ->check(CLI::Range(std::size_t{1}, std::size_t{kEmptySlot} - 1))
        ->capture_default_str();
    command.add_option("--density", density_, "share of the elements in each list, in (0, 1]")->capture_default_str();
    std::vector<std::string> names;
    for (const Decoding& decoding : decodings()) names.push_back(decoding.name);
    command
        .add_option("--decode", decodings_,
                    "sparse: all lists into one dense vector, window by window; coo: likewise into one sparse list; "
                    "dense: a dense vector for each list, added up")
        ->delimiter(',')
        ->check(CLI::IsMember(names))
        ->capture_default_str();
    command.add_option("--rounds", rounds_, "measurements of each row")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
  }

  Rows run() override {
    omp_set_num_threads(1);  // as each rank decodes
    const std::size_t k = compress::target_count(density_, numel_);
    const std::vector<SparseVector> lists =
        draw_lists(static_cast<std::size_t>(std::ranges::max(ranks_)), numel_, density_);
    Workplace place(numel_);
    Rows rows;
    for (const std::string& name : decodings_) {
      const auto decoding = std::ranges::find(decodings(), name, &Decoding::name);
      // Rounds go over all numbers of ranks: whatever else the machine does hits them alike.
      std::vector<std::vector<double>> seconds(ranks_.size());
      for (int round = -1; round < rounds_; ++round) {
        for (std::size_t which = 0; which < ranks_.size(); ++which) {
          const Lists used = Lists(lists).first(static_cast<std::size_t>(ranks_[which]));
          const double taken = seconds_of([&] { decoding->run(used, place); });
          if (round >= 0) seconds[which].push_back(taken);  // the first touches the memory
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
            {"ranks", ranks},
            {"numel", numel_},
            {"density", density_},
            {"entries", k * static_cast<std::size_t>(ranks)},
            {"seconds_median", median},
            {"seconds_p10", percentile(seconds, 0.1)},
            {"seconds_p90", percentile(seconds, 0.9)},
            {"gigabytes_per_second", bytes / median * 1e-9}};
  }

  /// of_two: the time of each of the last rows over that of two ranks, where that was measured.
  static void append_ratios(Rows& rows, std::size_t count) {
    const auto first = rows.end() - static_cast<std::ptrdiff_t>(count);
    const auto two = std::find_if(first, rows.end(), [](const auto& row) { return row["ranks"] == 2; });
    const double seconds = two == rows.end() ? 0 : (*two)["seconds_median"].get<double>();
    for (auto row = first; row != rows.end(); ++row) {
      (*row)["of_two"] = nullptr;
      if (seconds > 0) (*row)["of_two"] = (*row)["seconds_median"].get<double>() / seconds;
    }
  }

  std::vector<int> ranks_{2, 4, 8, 16, 32, 64};
  std::size_t numel_ = std::size_t{1} << 24;
  double density_ = 0.001;
  std::vector<std::string> decodings_{"sparse", "coo", "dense"};
  int rounds_ = 15;
};

const Registration<BenchmarkEntry> registration{{{"decode", "seconds to sum the sparse lists of several ranks"},
                                                 [] { return std::make_unique<DecodeBenchmark>(); }}};

}  // namespace
}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// `dragonn-bench compress`: seconds per selection, against the rates at which this machine reads and accumulates the
/// same buffers with plain loops in the same run.
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <omp.h>

#include "bench/benchmark.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "core/rng.h"

namespace dragonn::bench {
namespace {

using compress::Memory;
using compress::MemoryEntry;
using compress::SelectContext;
using compress::Sparsifier;
using compress::SparsifierEntry;

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

float draw_laplace(Rng& rng) {
  const float sign = rng() % 2 == 0 ? 1.0f : -1.0f;
  return sign * -std::log(1.0f - rng.uniform());
}

/// Student's t with 3 degrees of freedom.
float draw_student(Rng& rng) {
  float squares = 0;
  for (int degree = 0; degree < 3; ++degree) {
    const float normal = rng.normal();
    squares += normal * normal;
  }
  return rng.normal() / std::sqrt(squares / 3);
}

void fill(std::vector<float>& values, const std::string& distribution) {
  constexpr std::size_t kPiece = 1 << 16;
  const auto pieces = static_cast<std::ptrdiff_t>((values.size() + kPiece - 1) / kPiece);
#pragma omp parallel for
  for (std::ptrdiff_t piece = 0; piece < pieces; ++piece) {
    const auto begin = static_cast<std::size_t>(piece) * kPiece;
    Rng rng(1, "bench compress", {static_cast<std::uint64_t>(piece)});
    for (std::size_t i = begin; i < std::min(values.size(), begin + kPiece); ++i) {
      values[i] = distribution == "laplace"   ? draw_laplace(rng)
                  : distribution == "student" ? draw_student(rng)
                                              : rng.normal();
    }
  }
}

/// What the machine does with the bytes alone.
float read_all(const std::vector<float>& values) {
  const auto size = static_cast<std::ptrdiff_t>(values.size());
  float total = 0;
  // Sums may be taken in any order here: `simd` lets the loop run at the speed of the loads.
#pragma omp parallel for simd reduction(+ : total) schedule(static)
  for (std::ptrdiff_t i = 0; i < size; ++i) total += values[static_cast<std::size_t>(i)];
  return total;
}

void add_all(const std::vector<float>& gradient, std::vector<float>& sums) {
  const auto size = static_cast<std::ptrdiff_t>(gradient.size());
#pragma omp parallel for simd schedule(static)
  for (std::ptrdiff_t i = 0; i < size; ++i) sums[static_cast<std::size_t>(i)] += gradient[static_cast<std::size_t>(i)];
}

/// One sparsifier on one gradient: with memory `none` it selects from a given acc, with `residual` it accumulates in
/// the same pass.
class Selection {
 public:
  Selection(const std::string& sparsifier, const std::string& memory, std::size_t numel, double density)
      : context_{.density = density, .k = compress::target_count(density, numel)} {
    const auto& method = Registry<SparsifierEntry>::instance().at(sparsifier);
    const auto& feedback = Registry<MemoryEntry>::instance().at(memory);
    sparsifier_ = method.make(Settings(method.settings), numel);
    memory_ = feedback.make(Settings(feedback.settings), numel, 0.0f, false);
  }

  /// Compensate and select; what was selected leaves the memory outside of the time.
  double run(const std::vector<float>& gradient) {
    const View<const float> view(std::span<const float>{gradient});
    const double seconds = seconds_of([&] {
      const kernels::PassRequest request = sparsifier_->plan(context_);
      const kernels::PassResult& pass = memory_->compensate(request, view, 1.0f);
      sparsifier_->select(context_, pass, memory_->accumulated(), selected_);
    });
    memory_->settle({.contributed = selected_.indices.view()});
    ++context_.step;
    return seconds;
  }
  std::size_t selected() const { return selected_.size(); }

 private:
  SelectContext context_;
  std::unique_ptr<Sparsifier> sparsifier_;
  std::unique_ptr<Memory> memory_;
  SparseVector selected_;
};

class CompressBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--sparsifier", sparsifiers_, "methods to measure, or all (dragonn-train --list names them)")
        ->delimiter(',')
        ->capture_default_str();
    command.add_option("--numel", sizes_, "elements of the gradient")
        ->delimiter(',')
        ->check(CLI::Range(std::size_t{1}, std::size_t{kEmptySlot} - 1))
        ->capture_default_str();
    command.add_option("--density", densities_, "share of the elements to select")
        ->delimiter(',')
        ->capture_default_str();
    command.add_option("--distribution", distribution_, "of the gradient")
        ->check(CLI::IsMember({"laplace", "normal", "student"}))
        ->capture_default_str();
    command.add_option("--threads", threads_, "OpenMP threads")->check(CLI::Range(1, 1024))->capture_default_str();
    command.add_option("--rounds", rounds_, "measurements of each row")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
  }

  Rows run() override {
    if (sparsifiers_ == std::vector<std::string>{"all"}) sparsifiers_ = Registry<SparsifierEntry>::instance().names();
    for (const std::string& name : sparsifiers_) Registry<SparsifierEntry>::instance().at(name);
    omp_set_num_threads(threads_);
    Rows rows;
    for (const std::size_t numel : sizes_) {
      std::vector<float> gradient(numel), sums(numel);
      fill(gradient, distribution_);
      for (const double density : densities_) {
        for (const std::string& name : sparsifiers_) {
          rows.push_back(measure(name, "select", density, gradient, sums));
          rows.push_back(measure(name, "fused", density, gradient, sums));
        }
      }
    }
    return rows;
  }

 private:
  nlohmann::ordered_json measure(const std::string& name, const std::string& mode, double density,
                                 const std::vector<float>& gradient, std::vector<float>& sums) const {
    const bool fused = mode == "fused";
    Selection selection(name, fused ? "residual" : "none", gradient.size(), density);
    std::vector<double> seconds, read_seconds, add_seconds;
    volatile float total = read_all(gradient);
    selection.run(gradient);  // touches the buffers
    // All three alternate: whatever else the machine does hits them alike.
    for (int round = 0; round < rounds_; ++round) {
      read_seconds.push_back(seconds_of([&] { total = read_all(gradient); }));
      if (fused) add_seconds.push_back(seconds_of([&] { add_all(gradient, sums); }));
      seconds.push_back(selection.run(gradient));
    }
    const double median = percentile(seconds, 0.5);
    nlohmann::ordered_json row{
        {"sparsifier", name},
        {"numel", gradient.size()},
        {"density", density},
        {"threads", threads_},
        {"mode", mode},
        {"seconds_median", median},
        {"seconds_p10", percentile(seconds, 0.1)},
        {"seconds_p90", percentile(seconds, 0.9)},
        {"gigabytes_per_second", static_cast<double>(gradient.size() * sizeof(float)) / median * 1e-9},
        {"selected", selection.selected()},
        {"of_read", percentile(read_seconds, 0.5) / median},
        {"of_accumulate", nullptr}};
    if (fused) row["of_accumulate"] = percentile(add_seconds, 0.5) / median;
    return row;
  }

  std::vector<std::string> sparsifiers_{"all"};
  std::vector<std::size_t> sizes_{std::size_t{1} << 24};
  std::vector<double> densities_{0.001};
  std::string distribution_ = "laplace";
  int threads_ = 1;
  int rounds_ = 15;
};

const Registration<BenchmarkEntry> registration{
    {{"compress", "seconds per selection, as a share of the rates at which the machine reads and accumulates"},
     [] { return std::make_unique<CompressBenchmark>(); }}};

}  // namespace
}  // namespace dragonn::bench

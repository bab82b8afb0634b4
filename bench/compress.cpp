// SPDX-License-Identifier: MIT
/// `dragonn-bench compress`: seconds per selection, compared with the rates at which this machine reads, copies and
/// accumulates the same buffers in the same run.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>

#include "bench/bandwidth.h"
#include "bench/benchmark.h"
#include "bench/compress_rows.h"
#include "bench/device_timer.h"
#include "bench/gradients.h"
#include "bench/options.h"
#include "bench/selection.h"
#include "core/file.h"
#include "kernels/devices.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::bench {
namespace {

using compress::SparsifierEntry;

/// The name that rows give to the distribution of gradients from files.
const std::string kFromFile = "gradient-file";

/// A sparsifier or a kernel to be measured, and how.
struct Candidate {
  std::string name;
  bool is_kernel = false;
  bool is_fused = false;
  std::string obstacle = {};  ///< why it cannot be measured

  std::unique_ptr<Selection> make(const SelectionSpec& spec) const {
    return is_kernel ? make_kernel_selection(spec) : make_method_selection(spec);
  }
};

/// The gradients of one size, and the machine's buffers that are measured beside them.
struct Workload {
  std::vector<Buffer<float>> gradients;  ///< of successive steps, on the device
  Buffer<float> sums;                    ///< room for the machine's own copies and sums
  double density = 0;
  std::vector<float> exact_thresholds;  ///< per gradient, at this density

  std::size_t numel() const { return gradients[0].size(); }
  std::size_t k() const { return compress::target_count(density, numel()); }
  Subject subject(std::size_t step) const {
    const std::size_t which = step % gradients.size();
    return {gradients[which].view(), exact_thresholds[which], k()};
  }
};

/// Returns the exact threshold. Any bound too high makes select_largest find its own.
float exact_threshold(const Buffer<float>& gradient, double density) {
  const Device& device = gradient.device();
  kernels::MagnitudeScratch scratch(device);
  const SparseVector no_candidates(device);
  SparseVector selected(device);
  kernels::select_largest(gradient.view(), compress::target_count(density, gradient.size()), no_candidates,
                          std::numeric_limits<float>::infinity(), scratch, selected);
  return kernels::smallest_kept(scratch);
}

Thresholds thresholds_of(const std::string& name) {
  if (name == "method") return Thresholds::kMethod;
  return name == "settled" ? Thresholds::kSettled : Thresholds::kExact;
}

class CompressBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    add_device_option(command, device_name_);
    sparsifier_option_ = command
                             .add_option("--sparsifier", sparsifiers_,
                                         "Sparsifiers to measure, or all (dragonn-train --list names them)")
                             ->delimiter(',');
    command
        .add_option("--kernel", kernels_,
                    "Kernels to measure, or all; without --sparsifier only the kernels are measured")
        ->delimiter(',')
        ->default_str("")
        ->check(CLI::IsMember(kernel_choices()));
    command
        .add_option("--set", assignments_,
                    "Override a setting of a sparsifier, such as dgc.strategy=grace (repeatable)")
        ->type_name("METHOD.KEY=VALUE")
        ->default_str("");
    command
        .add_option(
            "--threshold", threshold_,
            "Thresholds to select with. method: the method's own; settled: a threshold that is known before the pass "
            "(fixed or fed back) is replaced by the exact k-th magnitude; exact: a sampled one is replaced, too")
        ->check(CLI::IsMember({"settled", "method", "exact"}));
    CLI::Option* const numel = command.add_option("--numel", sizes_, "Elements of the gradient")
                                   ->delimiter(',')
                                   ->check(CLI::Range(std::size_t{1}, std::size_t{kEmptySlot} - 1));
    command.add_option("--density", densities_, "Share of the elements to select, in (0, 1]")->delimiter(',');
    std::vector<std::string> known = distributions();
    known.push_back(kFromFile);
    distribution_option_ =
        command.add_option("--distribution", distribution_, "Distribution that the gradient is drawn from")
            ->check(CLI::IsMember(known));
    command
        .add_option("--input", inputs_,
                    "Select from your own gradient, a float32 .npy file (repeatable: one file per step)")
        ->type_name("FILE")
        ->default_str("")
        ->excludes(numel);
    command
        .add_option("--dump", dump_,
                    "Also write the selections of each method, with its own thresholds, to a JSON file")
        ->type_name("FILE");
    command.add_option("--threads", threads_, "OpenMP threads")->check(CLI::Range(1, 1024));
    command.add_option("--warmup", warmup_, "Steps before the first measurement: thresholds settle in them")
        ->check(CLI::Range(1, 100000));
    command.add_option("--rounds", rounds_, "Measurements of each row; the table shows medians")
        ->check(CLI::Range(1, 100000));
  }

  Rows run(Progress& progress) override {
    device_ = device_of(device_name_);
    omp_set_num_threads(threads_);
    const std::vector<Candidate> candidates = resolve();
    for (const double density : densities_) compress::target_count(density, 1);  // refuses a bad one before the work
    Workload workload;
    if (!inputs_.empty()) {
      for (const auto& gradient : read_gradients(inputs_)) workload.gradients.push_back(on_device(gradient, device_));
      sizes_ = {workload.numel()};
    }
    plan(progress, candidates.size());
    Rows rows;
    nlohmann::ordered_json dump = nlohmann::ordered_json::array();
    for (const std::size_t numel : sizes_) {
      if (inputs_.empty()) {
        std::vector<float> gradient(numel);
        draw_gradient(distribution_, 1, gradient);
        workload.gradients.clear();
        workload.gradients.push_back(on_device(gradient, device_));
      }
      workload.sums = Buffer<float>(numel, device_);
      kernels::fill(0, workload.sums.view());
      for (const double density : densities_) measure_density(workload, density, candidates, {progress, rows, dump});
    }
    if (!dump_.empty()) write_file_atomically(dump_, dump.dump() + "\n");
    return rows;
  }

 private:
  /// The destinations of the outcome.
  struct Outcome {
    Progress& progress;
    Rows& rows;
    nlohmann::ordered_json& dump;
  };

  void plan(Progress& progress, std::size_t candidates) const {
    const double numel = std::accumulate(sizes_.begin(), sizes_.end(), 0.0);
    progress.plan(numel * (warmup_ + rounds_) * static_cast<double>(densities_.size() * candidates));
  }

  static std::vector<std::string> kernel_choices() {
    std::vector<std::string> names{"all"};
    for (const KernelName& kernel : kernel_names()) names.push_back(kernel.name);
    return names;
  }

  void check_source() {
    if (inputs_.empty() && distribution_ == kFromFile) {
      throw ConfigError(fmt::format("--distribution {}: expected --input FILE.npy with it", kFromFile));
    }
    if (inputs_.empty()) return;
    if (distribution_option_->count() > 0 && distribution_ != kFromFile) {
      throw ConfigError(fmt::format("--distribution {}: with --input the gradient is the file's", distribution_));
    }
    distribution_ = kFromFile;
  }

  /// Returns all candidates. Names and settings are known to be valid.
  std::vector<Candidate> resolve() {
    check_source();
    std::vector<Candidate> candidates;
    for (const std::string& name : methods()) {
      candidates.push_back({.name = name, .is_fused = false});
      candidates.push_back({.name = name, .is_fused = true});
    }
    const bool all_kernels = kernels_ == std::vector<std::string>{"all"};
    for (const KernelName& kernel : kernel_names()) {
      if (!all_kernels && std::ranges::find(kernels_, kernel.name) == kernels_.end()) continue;
      const bool is_elsewhere = kernel.device && *kernel.device != device_.type;
      if (is_elsewhere && all_kernels) continue;
      if (is_elsewhere)
        throw ConfigError(fmt::format("--kernel {}: not there with --device {}", kernel.name, device_name_));
      if (!kernel.obstacle.empty() && !all_kernels)
        throw ConfigError(fmt::format("--kernel {}: {}", kernel.name, kernel.obstacle));
      candidates.push_back(
          {.name = kernel.name, .is_kernel = true, .is_fused = kernel.is_fused, .obstacle = kernel.obstacle});
    }
    return candidates;
  }

  /// Returns the names of the sparsifiers to be measured; their settings are in settings_.
  std::vector<std::string> methods() {
    std::vector<std::string> names = sparsifiers_;
    if (!kernels_.empty() && sparsifier_option_->count() == 0) names.clear();
    if (names == std::vector<std::string>{"all"}) names = Registry<SparsifierEntry>::instance().names();
    settings_ = method_settings<SparsifierEntry>(names, assignments_);
    return names;
  }

  SelectionSpec spec_of(const Candidate& candidate, const Workload& workload, Thresholds thresholds) const {
    SelectionSpec spec{.name = candidate.name,
                       .is_fused = candidate.is_fused,
                       .numel = workload.numel(),
                       .density = workload.density,
                       .thresholds = thresholds,
                       .device = device_};
    if (!candidate.is_kernel) spec.settings = settings_.at(candidate.name);
    return spec;
  }

  void measure_density(Workload& workload, double density, const std::vector<Candidate>& candidates,
                       const Outcome& outcome) const {
    workload.density = density;
    workload.exact_thresholds.clear();
    for (const auto& gradient : workload.gradients) {
      workload.exact_thresholds.push_back(exact_threshold(gradient, density));
    }
    Rows found;
    for (const Candidate& candidate : candidates) {
      found.push_back(compress_row(conditions_of(candidate, workload), candidate.is_fused, workload.k(),
                                   measure(candidate, workload, outcome.progress)));
      if (!dump_.empty() && !candidate.is_kernel && !candidate.is_fused) append_dump(candidate, workload, outcome.dump);
    }
    append_savings(found);
    outcome.rows.insert(outcome.rows.end(), found.begin(), found.end());
  }

  nlohmann::ordered_json conditions_of(const Candidate& candidate, const Workload& workload) const {
    return {{"sparsifier", candidate.name}, {"device", device_name_},        {"numel", workload.numel()},
            {"density", workload.density},  {"distribution", distribution_}, {"threads", threads_}};
  }

  CompressMeasurement measure(const Candidate& candidate, Workload& workload, Progress& progress) const {
    CompressMeasurement measured;
    const auto advance = [&](int steps) {
      progress.advance(static_cast<double>(workload.numel()) * steps,
                       fmt::format("{}, {} elements, density {}", candidate.name, workload.numel(), workload.density));
    };
    if (!candidate.obstacle.empty()) {
      progress.finish();
      fmt::print(stderr, "dragonn-bench: {} is not measured: {}\n", candidate.name, candidate.obstacle);
      advance(warmup_ + rounds_);
      return measured;
    }
    const auto selection = candidate.make(spec_of(candidate, workload, thresholds_of(threshold_)));
    std::size_t step = 0;
    for (; step < static_cast<std::size_t>(warmup_); ++step) {
      selection->run(workload.subject(step));
      advance(1);
    }
    // All alternate, so that other work on the machine affects them alike.
    for (int round = 0; round < rounds_; ++round, ++step) {
      const Subject subject = workload.subject(step);
      const View<float> sums = workload.sums.view();
      measured.read_seconds.push_back(read_seconds(device_, subject.gradient, sums));
      measured.copy_seconds.push_back(copy_seconds(device_, subject.gradient, sums));
      if (candidate.is_fused) measured.add_seconds.push_back(add_seconds(device_, subject.gradient, sums));
      measured.seconds.push_back(selection->run(subject));
      advance(1);
    }
    measured.selected = selection->selected().size();
    measured.elements_read = selection->elements_read();
    return measured;
  }

  /// Appends what the method selects from each gradient, from its first step on, with its own thresholds.
  void append_dump(const Candidate& candidate, const Workload& workload, nlohmann::ordered_json& dump) const {
    const auto selection = candidate.make(spec_of(candidate, workload, Thresholds::kMethod));
    kernels::HostMirror<std::uint32_t> indices;
    kernels::HostMirror<float> values;
    for (std::size_t step = 0; step < workload.gradients.size(); ++step) {
      selection->run(workload.subject(step));
      dump.push_back({{"sparsifier", candidate.name},
                      {"step", step},
                      {"numel", workload.numel()},
                      {"density", workload.density},
                      {"k", compress::target_count(workload.density, workload.numel())},
                      {"threshold", or_null(selection->threshold())},
                      {"indices", indices.of(selection->selected().indices.view())},
                      {"values", values.of(selection->selected().values.view())}});
    }
  }

  std::string device_name_ = "cpu";
  Device device_;
  CLI::Option* sparsifier_option_ = nullptr;
  CLI::Option* distribution_option_ = nullptr;
  std::vector<std::string> sparsifiers_{"all"};
  std::vector<std::string> kernels_;
  std::vector<std::string> assignments_;
  MethodSettings settings_;
  std::string threshold_ = "settled";
  std::vector<std::size_t> sizes_{std::size_t{1} << 24};
  std::vector<double> densities_{0.001};
  std::string distribution_ = "laplace";
  std::vector<std::filesystem::path> inputs_;
  std::string dump_;
  int threads_ = 1;
  int warmup_ = 3;
  int rounds_ = 15;
};

const Registration<BenchmarkEntry> registration{
    {{"compress", "Measures selections by sparsifiers, against the machine's memory rates"},
     [] { return std::make_unique<CompressBenchmark>(); },
     {.conditions = {"device", "numel", "density", "distribution", "threads"},
      .results = {"sparsifier", "mode", "seconds_median", "selected_over_k", "of_read", "of_accumulate", "below_dgc",
                  "below_prefix_sums"}},
     {"compress", "compress --sparsifier dgc,topk --numel 1000000 --density 0.01,0.001",
      "compress --sparsifier topk --input RUN/gradients/step-00000100-rank-0000.npy --dump selected.json"}}};

}  // namespace
}  // namespace dragonn::bench

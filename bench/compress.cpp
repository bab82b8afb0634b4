// SPDX-License-Identifier: MIT
/// `dragonn-bench compress`: seconds per selection, compared with the rates at which this machine reads, copies and
/// accumulates the same buffers in the same run.
#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>

#include "bench/benchmark.h"
#include "bench/device_timer.h"
#include "bench/gradients.h"
#include "bench/options.h"
#include "bench/selection.h"
#include "compress/memory.h"
#include "core/choice.h"
#include "core/file.h"
#include "kernels/devices.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::bench {
namespace {

using compress::SparsifierEntry;

/// The name that rows give to the distribution of gradients from files.
const std::string kFromFile = "gradient-file";

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

/// The gradients of one size, and the machine's buffers that are measured beside them.
struct Workload {
  std::vector<Buffer<float>> gradients;  ///< of successive steps, on the device
  Buffer<float> sums;                    ///< room for the machine's own copies and sums
  double density = 0;
  std::vector<float> exact_thresholds;  ///< per gradient, at this density

  void set_density(double value) {
    density = value;
    exact_thresholds.clear();
    for (const auto& gradient : gradients) exact_thresholds.push_back(exact_threshold(gradient, density));
  }

  std::size_t numel() const { return gradients[0].size(); }
  std::size_t k() const { return compress::target_count(density, numel()); }
  Subject subject(std::size_t step) const {
    const std::size_t which = step % gradients.size();
    return {gradients[which].view(), exact_thresholds[which], k()};
  }
};

/// The seconds of all rounds. An empty list was not measured.
struct Measurement {
  std::vector<double> seconds;
  std::vector<double> read_seconds, copy_seconds;
  std::vector<double> add_seconds;  ///< of fused selections
  std::size_t selected = 0, elements_read = 0;
};

double percentile_or_nan(const std::vector<double>& values, double share) {
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : percentile(values, share);
}

/// Returns the share of the time of `other` that a row saves, if `rows` has the other.
nlohmann::ordered_json saving(const Rows& rows, const nlohmann::ordered_json& row, const std::string& other) {
  const auto found = std::ranges::find_if(rows, [&](const auto& candidate) {
    return candidate["sparsifier"] == other && candidate["mode"] == row["mode"];
  });
  if (found == rows.end() || (*found)["seconds_median"].is_null() || row["seconds_median"].is_null()) return {};
  return 1 - row["seconds_median"].get<double>() / (*found)["seconds_median"].get<double>();
}

class CompressBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    add_device_option(command, device_name_);
    sparsifier_option_ = add_list_option(command, "--sparsifier", sparsifiers_,
                                         "Sparsifiers to measure, or all (dragonn-train --list names them)");
    add_list_option(command, "--kernel", kernels_,
                    "Kernels to measure, or all; without --sparsifier only the kernels are measured")
        ->default_str("")
        ->check(CLI::IsMember(kernel_choices()));
    add_set_option(command, assignments_,
                   "Override a setting of a sparsifier, such as dgc.strategy=grace (repeatable)");
    command
        .add_option(
            "--threshold", threshold_,
            "Thresholds to select with. method: the method's own; settled: a threshold that is known before the pass "
            "(fixed or fed back) is replaced by the exact k-th magnitude; exact: a sampled one is replaced, too")
        ->check(CLI::IsMember({"settled", "method", "exact"}));
    CLI::Option* const numel =
        add_list_option(command, "--numel", sizes_, "Elements of the gradient")->check(gradient_sizes());
    add_list_option(command, "--density", densities_, "Share of the elements to select, in (0, 1]");
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
    command
        .add_option("--memory", memory_,
                    "Memory that the mode fused accumulates into (dragonn-train --list names them)")
        ->check(CLI::IsMember(Registry<compress::MemoryEntry>::instance().names()));
    add_threads_option(command, threads_);
    command.add_option("--warmup", warmup_, "Steps before the first measurement: thresholds settle in them")
        ->check(CLI::Range(1, 100000));
    add_rounds_option(command, rounds_);
  }

  Rows run(Progress& progress) override {
    device_ = device_of(device_name_);
    omp_set_num_threads(threads_);
    check_source();
    std::vector<SelectionSpec> candidates = resolve();
    for (const double density : densities_) compress::target_count(density, 1);  // refuses a bad one before the work
    Workload workload;
    if (!inputs_.empty()) {
      for (const auto& gradient : read_gradients(inputs_)) workload.gradients.push_back(on_device(gradient, device_));
      sizes_ = {workload.numel()};
    }
    const double numel_in_all = std::accumulate(sizes_.begin(), sizes_.end(), 0.0);
    progress.plan(numel_in_all * (warmup_ + rounds_) * static_cast<double>(densities_.size() * candidates.size()));
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
      for (const double density : densities_) {
        workload.set_density(density);
        std::ranges::move(measure_all(workload, candidates, progress, dump), std::back_inserter(rows));
      }
    }
    if (!dump_.empty()) write_file_atomically(dump_, dump.dump() + "\n");
    return rows;
  }

 private:
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

  /// Returns all candidates, for any gradient. Names and settings are known to be valid.
  std::vector<SelectionSpec> resolve() const {
    std::vector<SelectionSpec> candidates;
    const std::vector<std::string> all{"all"};
    std::vector<std::string> methods =
        sparsifiers_ == all ? Registry<SparsifierEntry>::instance().names() : sparsifiers_;
    if (!kernels_.empty() && sparsifier_option_->count() == 0) methods.clear();
    const MethodSettings settings = method_settings<SparsifierEntry>(methods, assignments_);
    for (const std::string& name : methods) {
      for (const bool is_fused : {false, true})
        candidates.push_back(
            {.name = name, .settings = settings.at(name), .is_fused = is_fused, .memory = memory_, .device = device_});
    }
    for (const KernelName& kernel : kernel_names()) {
      if (kernels_ != all && std::ranges::find(kernels_, kernel.name) == kernels_.end()) continue;
      const bool is_elsewhere = kernel.device && *kernel.device != device_.type;
      if (is_elsewhere && kernels_ == all) continue;
      if (is_elsewhere)
        throw ConfigError(fmt::format("--kernel {}: not there with --device {}", kernel.name, device_name_));
      if (!kernel.obstacle.empty() && kernels_ != all)
        throw ConfigError(fmt::format("--kernel {}: {}", kernel.name, kernel.obstacle));
      candidates.push_back({.name = kernel.name,
                            .is_kernel = true,
                            .is_fused = kernel.is_fused,
                            .device = device_,
                            .obstacle = kernel.obstacle});
    }
    return candidates;
  }

  /// Measures at one density. Each row also has the share of another's time that it saves: of the method `dgc` in the
  /// same mode, and of the baseline `prefix_sums`; null without the other.
  Rows measure_all(Workload& workload, std::vector<SelectionSpec>& candidates, Progress& progress,
                   nlohmann::ordered_json& dump) const {
    Rows rows;
    for (SelectionSpec& candidate : candidates) {
      candidate.numel = workload.numel();
      candidate.density = workload.density;
      candidate.thresholds = choice_of<Thresholds>("threshold", threshold_);
      rows.push_back(row(candidate, workload.k(), measure(candidate, workload, progress)));
      if (!dump_.empty() && !candidate.is_kernel && !candidate.is_fused) append_dump(candidate, workload, dump);
    }
    for (nlohmann::ordered_json& row : rows) {
      row["below_dgc"] = saving(rows, row, "dgc");
      row["below_prefix_sums"] = saving(rows, row, "prefix_sums");
    }
    return rows;
  }

  /// Returns a row, with null for all that was not measured. @param k entries asked for.
  nlohmann::ordered_json row(const SelectionSpec& spec, std::size_t k, const Measurement& measured) const {
    const auto numel = static_cast<double>(spec.numel);
    const double bytes = numel * (spec.is_fused ? kAddBytes : kReadBytes);
    const auto if_measured = [&](std::size_t count) {
      return measured.seconds.empty() ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(count);
    };
    const double median = percentile_or_nan(measured.seconds, 0.5);
    const double read = percentile_or_nan(measured.read_seconds, 0.5);
    const double add = percentile_or_nan(measured.add_seconds, 0.5);
    const double copy_rate = numel * kCopyBytes / percentile_or_nan(measured.copy_seconds, 0.5);
    return {
        {"sparsifier", spec.name},
        {"device", device_name_},
        {"numel", spec.numel},
        {"density", spec.density},
        {"distribution", distribution_},
        {"threads", threads_},
        {"mode", spec.is_fused ? "fused" : "select"},
        {"seconds_median", or_null(median)},
        {"seconds_p10", or_null(percentile_or_nan(measured.seconds, 0.1))},
        {"seconds_p90", or_null(percentile_or_nan(measured.seconds, 0.9))},
        {"gigabytes_per_second", or_null(numel * kReadBytes / median * 1e-9)},
        {"selected", measured.seconds.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(measured.selected)},
        {"selected_over_k", or_null(if_measured(measured.selected) / static_cast<double>(k))},
        {"passes", or_null(if_measured(measured.elements_read) / numel)},
        {"read_gigabytes_per_second", or_null(numel * kReadBytes / read * 1e-9)},
        {"accumulate_gigabytes_per_second", or_null(numel * kAddBytes / add * 1e-9)},
        {"of_read", or_null(read / median)},
        {"of_accumulate", or_null(add / median)},
        {"bytes", bytes},
        {"copy_gigabytes_per_second", or_null(copy_rate * 1e-9)},
        {"of_copy", or_null(bytes / median / copy_rate)}};
  }

  Measurement measure(const SelectionSpec& candidate, Workload& workload, Progress& progress) const {
    Measurement measured;
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
    const auto selection = make_selection(candidate);
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
  void append_dump(SelectionSpec candidate, const Workload& workload, nlohmann::ordered_json& dump) const {
    candidate.thresholds = Thresholds::kMethod;
    const auto selection = make_selection(candidate);
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
  std::string threshold_ = "settled";
  std::string memory_ = "residual";
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

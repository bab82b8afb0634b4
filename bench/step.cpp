// SPDX-License-Identifier: MIT
/// `dragonn-bench step`: the rate of whole training steps, against that of a large matrix product on the same device
/// and threads, in the same precision. A step begins with the batch in host memory, page-locked for a GPU.
///
/// A step is forward, loss, backward and a plain update of all parameters. Its operations are those of the convolutions
/// and linear layers, and of the gates of recurrent layers, 2 per multiply-add: once for forward, once for the gradient
/// of the weights, once for that of the input (not for the first layer, which has none). Products with padding count,
/// as in published numbers; batch norm, pooling, loss and update count nothing, so whatever they take lowers the rate.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>

#include "bench/benchmark.h"
#include "bench/device_timer.h"
#include "bench/options.h"
#include "bench/training_step.h"
#include "core/choice.h"
#include "core/clock.h"
#include "core/error.h"
#include "kernels/device_math.h"
#include "kernels/devices.h"
#include "kernels/trace.h"
#include "layers/layer.h"

namespace dragonn::bench {
namespace {

/// Parses "32x32x3" or "35".
Shape parse_sample(const std::string& text) {
  constexpr std::size_t kMaxAxes = 3;
  std::vector<std::int64_t> extents;
  std::size_t begin = 0;
  while (begin <= text.size() && extents.size() <= kMaxAxes) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    std::int64_t extent = 0;
    const auto [rest, failure] = std::from_chars(text.data() + begin, text.data() + end, extent);
    extents.push_back(failure == std::errc() && rest == text.data() + end ? extent : 0);
    begin = end + 1;
  }
  if (extents.size() > kMaxAxes || std::ranges::any_of(extents, [](std::int64_t extent) { return extent < 1; }))
    throw ConfigError(
        fmt::format("--sample {}: valid are HEIGHTxWIDTHxCHANNELS, FEATURES, STEPS or STEPSxFEATURES, "
                    "such as 32x32x3 or 35",
                    text));
  return Shape(extents);
}

/// Lists the passes for which the device's library offers several algorithms, with the one that was chosen.
nlohmann::ordered_json describe_passes(const layers::Network& network) {
  nlohmann::ordered_json passes = nlohmann::ordered_json::array();
  for (const layers::LayerDescription& layer : network.describe())
    for (const kernels::PassDescription& pass : layer.passes)
      passes.push_back({{"layer", layer.layer},
                        {"pass", pass.pass},
                        {"algorithm", pass.algorithm},
                        {"math", pass.math},
                        {"workspace_bytes", pass.workspace_bytes}});
  return passes;
}

/// The numbers of a layer in one pass.
struct Work {
  double flops = 0, bytes = 0;
};

/// Backward reads the inputs, the parameters and the output's gradient, and writes the gradients of the first two.
Work work_of(const layers::LayerSummary& layer, bool backward, double batch) {
  const double inputs = batch * static_cast<double>(layer.inputs);
  const double outputs = batch * static_cast<double>(layer.output.size());
  const auto parameters = static_cast<double>(layer.parameters);
  const double elements = backward ? 2 * inputs + outputs + 2 * parameters : inputs + outputs + parameters;
  return {batch * (backward ? layer.backward_flops : layer.forward_flops), elements * sizeof(float)};
}

/// Listens to the ranges that a network names while it works (kernels/trace.h). Only one profile may listen at a time,
/// and the network must run on its thread. On a GPU every range begins and ends with an idle device, so that layers do
/// not overlap, and a step takes longer than without a profile.
class LayerProfile {
 public:
  explicit LayerProfile(const Device& device) : device_(device) {
    DRAGONN_CHECK(listening_ == nullptr, "a second profile beside the one that listens");
    listening_ = this;
    before_ = kernels::register_trace(device.type, {on_begin, on_end});
  }
  ~LayerProfile() {
    kernels::register_trace(device_.type, before_);
    listening_ = nullptr;
  }
  LayerProfile(const LayerProfile&) = delete;
  LayerProfile& operator=(const LayerProfile&) = delete;

  /// Runs a part of a step: "forward", "backward" or "update". What it takes beside its ranges counts as its rest.
  void run(const std::string& pass, const std::function<void()>& work) {
    pass_ = pass;
    in_ranges_ = 0;
    const double begin = idle_now();
    work();
    add("", idle_now() - begin - in_ranges_);
  }
  /// Ends a step: medians are taken over steps.
  void end_step() {
    for (Part& part : parts_) {
      part.seconds.push_back(part.now);
      part.now = 0;
    }
  }

  /// Returns a row for each layer and pass, in the order of the step: milliseconds (median over the steps), their share
  /// of the step, gflops (of matrix products; null without), and megabytes, those of the layer's tensors and
  /// parameters, each read or written once.
  Rows rows(const layers::Network& network, std::size_t batch) const {
    const std::vector<layers::LayerSummary> layers = network.summary();
    double total = 0;
    for (const Part& part : parts_) total += percentile(part.seconds, 0.5);
    Rows rows;
    for (const Part& part : parts_) {
      const double seconds = percentile(part.seconds, 0.5);
      const auto layer = std::ranges::find(layers, part.layer, &layers::LayerSummary::name);
      const bool is_layer = layer != layers.end();
      const Work work = is_layer ? work_of(*layer, part.pass == "backward", static_cast<double>(batch)) : Work{};
      nlohmann::ordered_json row{{"pass", part.pass},
                                 {"layer", part.layer.empty() ? "(rest)" : part.layer},
                                 {"layer_kind", is_layer ? layer->kind : ""},
                                 {"milliseconds", seconds * 1e3},
                                 {"share", seconds / total}};
      row["layer_gflops"] = work.flops > 0 ? or_null(work.flops / seconds * 1e-9) : nullptr;
      row["megabytes"] = work.bytes > 0 ? or_null(work.bytes * 1e-6) : nullptr;
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  /// A part of the step, with its seconds in each step.
  struct Part {
    std::string pass, layer;  // an empty layer: the rest of the pass
    std::vector<double> seconds;
    double now = 0;  // of the step that runs
  };

  static void on_begin(const char* name) noexcept {
    if (listening_->depth_++ > 0) return;
    listening_->range_ = name;
    listening_->range_begin_ = listening_->idle_now();
  }
  static void on_end() noexcept {
    if (--listening_->depth_ > 0) return;
    const double seconds = listening_->idle_now() - listening_->range_begin_;
    listening_->in_ranges_ += seconds;
    listening_->add(listening_->range_, seconds);
  }

  /// Waits for the device, and returns the time in seconds.
  double idle_now() const {
    kernels::synchronize(device_);
    return wall_clock().now();
  }
  void add(const std::string& layer, double seconds) {
    auto part =
        std::ranges::find_if(parts_, [&](const Part& other) { return other.pass == pass_ && other.layer == layer; });
    if (part == parts_.end()) part = parts_.insert(parts_.end(), {pass_, layer, {}});
    part->now += seconds;
  }

  // The profile that listens. Functions of a profiler get nothing but a name, so the object must be found without one.
  inline static LayerProfile* listening_ = nullptr;

  Device device_;
  kernels::TraceFunctions before_;
  std::vector<Part> parts_;
  std::string pass_, range_;
  int depth_ = 0;  // of nested ranges: the outermost counts
  double range_begin_ = 0, in_ranges_ = 0;
};

class StepBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--model", models_, "Model to measure (repeatable; dragonn-train --list names them)");
    add_set_option(command, model_settings_, "Override a setting of the model, such as hidden=1500 (repeatable)",
                   "KEY=VALUE");
    command.add_option("--batch", batch_, "Samples per step")->check(CLI::Range(1, 65536));
    add_device_option(command, device_);
    command.add_option("--device-math", math_, "Precision of the factors of matrix products on a GPU")
        ->check(CLI::IsMember(choice_names<kernels::DeviceMath>()));
    command.add_option("--recompute", recompute_, "What backward computes again to save memory (train.recompute)")
        ->check(CLI::IsMember(choice_names<layers::Recompute>()));
    command.add_option("--graphs", graphs_, "Whether a GPU repeats forward and backward as CUDA graphs")
        ->check(CLI::IsMember({"on", "off", "both"}));
    add_threads_option(command, threads_);
    command
        .add_option("--classes", classes_,
                    "Classes or size of the vocabulary (default: images 10, tokens 10000, speech 29, features 30938)")
        ->check(CLI::Range(2, 1 << 24));
    command
        .add_option(
            "--sample,--image", sample_,
            "Shape of a sample: HEIGHTxWIDTHxCHANNELS, STEPS, STEPSxFEATURES or FEATURES (default: images 32x32x3, "
            "tokens 35, speech 200x161, features 4096)")
        ->type_name("SHAPE");
    add_rounds_option(command, rounds_);
    command
        .add_option(
            "--product-side", product_side_,
            "Rows and columns of the matrix product that steps are compared with (default: 2048 on the CPU, 8192 on a "
            "GPU)")
        ->check(CLI::Range(1, 65536));
    command.add_flag("--profile", profile_,
                     "Show instead where the time of a step goes: milliseconds, rate and bytes by layer and pass");
    command
        .add_option("--weights", weights_,
                    "Start from the weights in a safetensors file (dragonn-train --export) instead of random ones")
        ->type_name("FILE");
    command
        .add_option("--dump", dump_,
                    "Also write the arrays of one step to DIR (scripts/check_against_pytorch.py reads them)")
        ->type_name("DIR");
  }

  Rows run(Progress& progress) override {
    if (!dump_.empty() && models_.size() != 1) throw ConfigError("--dump takes one --model");
    omp_set_num_threads(threads_);
    progress.plan(static_cast<double>(models_.size()) * (graphs_ == "both" ? 2 : 1) * rounds_);
    Rows rows;
    for (const std::string& model : models_) {
      const StepSettings settings = settings_for(model);
      if (!dump_.empty()) dump_step(settings, dump_);
      if (profile_) {
        std::ranges::move(profile(settings, progress), std::back_inserter(rows));
        continue;
      }
      for (const bool graphs : {false, true})
        if (graphs_ == "both" || (graphs_ == "on") == graphs) rows.push_back(measure(settings, graphs, progress));
    }
    return rows;
  }

 private:
  StepSettings settings_for(const std::string& model) const {
    StepSettings settings = default_step(model);
    settings.model_settings = model_settings_;
    settings.batch = batch_;
    settings.device = device_of(device_);
    settings.execution.math = choice_of<kernels::DeviceMath>("device math", math_);
    settings.execution.recompute = choice_of<layers::Recompute>("recompute", recompute_);
    settings.weights = weights_;
    if (classes_) settings.classes = *classes_;
    if (sample_) settings.sample = parse_sample(*sample_);
    return settings;
  }

  /// Describes the model and how it is measured, as all rows do.
  nlohmann::ordered_json conditions(const StepSettings& settings, bool graphs) const {
    nlohmann::ordered_json row = describe(settings);
    row.update({{"device", device_},
                {"device_math", math_},
                {"graphs", graphs && !settings.device.is_cpu()},
                {"threads", threads_}});
    // Only then, so that other rows have the conditions that they had in earlier versions.
    if (settings.execution.recompute != layers::Recompute::kNone) row["recompute"] = recompute_;
    return row;
  }

  Rows profile(StepSettings settings, Progress& progress) const {
    settings.execution.records = false;
    TrainingStep step(settings);
    for (int warm_up = 0; warm_up < 2; ++warm_up) {
      step.compute_gradients();
      step.update();
    }
    LayerProfile profile(settings.device);
    for (int round = 0; round < rounds_; ++round) {
      profile.run("forward", [&] { step.forward(); });
      profile.run("backward", [&] { step.backward(); });
      profile.run("update", [&] { step.update(); });
      profile.end_step();
      progress.advance(1, fmt::format("{}, round {}", settings.model, round + 1));
    }
    Rows rows;
    for (const nlohmann::ordered_json& part : profile.rows(step.network(), settings.batch)) {
      nlohmann::ordered_json row = conditions(settings, false);
      row.update(part);
      rows.push_back(std::move(row));
    }
    return rows;
  }

  nlohmann::ordered_json measure(StepSettings settings, bool graphs, Progress& progress) const {
    settings.execution.records = graphs;
    TrainingStep step(settings);
    const auto one_step = [&] {
      step.compute_gradients();
      step.update();
      kernels::synchronize(settings.device);
    };
    const auto timed_step = [&] {
      const kernels::TraceRange range(settings.device, "timed step");  // for profilers, without the steps before
      one_step();
    };
    const std::int64_t side = product_side_.value_or(settings.device.is_cpu() ? 2048 : 8192);
    const std::function<void()> product = make_large_product(settings.device, settings.execution.math, side);
    one_step();  // makes the plans
    one_step();  // a GPU records them
    product();
    std::vector<double> step_seconds, product_seconds;
    // Both alternate, and several short steps stand against one product: whatever else the machine does hits both.
    const int steps = std::max(1, static_cast<int>(seconds_of(product) / seconds_of(one_step)));
    for (int round = 0; round < rounds_; ++round) {
      product_seconds.push_back(seconds_of(product));
      for (int i = 0; i < steps; ++i) step_seconds.push_back(seconds_of(timed_step));
      progress.advance(1, fmt::format("{}, round {}", settings.model, round + 1));
    }
    const double seconds = percentile(step_seconds, 0.5);
    const auto batch = static_cast<double>(settings.batch);
    const double rate = step.network().training_flops() * batch / seconds;
    const double product_rate = 2 * std::pow(static_cast<double>(side), 3) / percentile(product_seconds, 0.5);
    nlohmann::ordered_json row = conditions(settings, graphs);
    row.update({{"parameters", step.network().arena().size()},
                {"seconds_median", seconds},
                {"samples_per_second", batch / seconds},
                {"gflops", rate * 1e-9},
                {"gemm_gflops", product_rate * 1e-9},
                {"of_gemm", rate / product_rate},
                {"passes", describe_passes(step.network())}});
    return row;
  }

  std::vector<std::string> models_{"vgg16", "resnet20"};
  std::vector<std::string> model_settings_;
  std::size_t batch_ = 32;
  std::optional<int> classes_;
  std::optional<std::string> sample_;
  std::string dump_, weights_;
  bool profile_ = false;
  std::string device_ = "cpu", math_ = "float32", graphs_ = "on", recompute_ = "none";
  int threads_ = 1;
  int rounds_ = 15;
  std::optional<std::int64_t> product_side_;
};

const Registration<BenchmarkEntry> registration{
    {{"step", "Measures training steps, against the rate of large matrix products"},
     [] { return std::make_unique<StepBenchmark>(); },
     {.conditions = {"sample", "classes", "batch", "device", "device_math", "recompute", "graphs", "threads"},
      .results = {"model", "parameters", "seconds_median", "samples_per_second", "gflops", "of_gemm", "pass", "layer",
                  "layer_kind", "milliseconds", "share", "layer_gflops", "megabytes"}},
     {"step --model resnet20 --batch 32 --threads 1", "step --model lstm_lm --set hidden=650 --sample 35 --profile",
      "step --model mlp --sample 28x28x1 --dump step"}}};

}  // namespace
}  // namespace dragonn::bench

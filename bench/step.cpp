// SPDX-License-Identifier: MIT
/// `dragonn-bench step`: the rate of whole training steps, against that of a large matrix product on the same threads.
///
/// A step is forward, loss, backward and a plain update of all parameters. Its operations are those of the convolutions
/// and linear layers, 2 per multiply-add: once for forward, once for the gradient of the weights, once for that of the
/// input (not for the first layer, which has none). Products with padding count, as in published numbers; batch norm,
/// pooling, loss and update count nothing, so whatever they take lowers the rate.
#include <cstdlib>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "bench/benchmark.h"
#include "bench/timing.h"
#include "bench/training_step.h"
#include "core/error.h"

namespace dragonn::bench {
namespace {

/// A product of square matrices, large enough that oneDNN reaches its best rate.
class LargeProduct {
 public:
  LargeProduct() : a_(kSide * kSide, 0.5f), b_(kSide * kSide, 0.25f), c_(kSide * kSide) {}

  static constexpr double flops() { return 2.0 * kSide * kSide * kSide; }
  void run() {
    const dnnl_status_t status =
        dnnl_sgemm('N', 'N', kSide, kSide, kSide, 1.0f, a_.data(), kSide, b_.data(), kSide, 0.0f, c_.data(), kSide);
    DRAGONN_CHECK(status == dnnl_success, "oneDNN's sgemm failed with status {}", static_cast<int>(status));
  }

 private:
  static constexpr dnnl_dim_t kSide = 2048;
  std::vector<float> a_, b_, c_;
};

/// "32x32x3": height, width, channels.
Shape parse_image(const std::string& text) {
  std::int64_t height = 0, width = 0, channels = 0;
  char end = 0;
  if (std::sscanf(text.c_str(), "%ldx%ldx%ld%c", &height, &width, &channels, &end) != 3 || height < 1 || width < 1 ||
      channels < 1)
    throw ConfigError(fmt::format("--image {}: valid is HEIGHTxWIDTHxCHANNELS, such as 32x32x3", text));
  return {height, width, channels};
}

class StepBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--model", models_, "models to measure (dragonn-train --list names them)")
        ->capture_default_str();
    command.add_option("--batch", settings_.batch, "samples per step")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    command.add_option("--threads", threads_, "OpenMP threads")->check(CLI::Range(1, 1024))->capture_default_str();
    command.add_option("--classes", settings_.classes)->check(CLI::Range(2, 1 << 24))->capture_default_str();
    command.add_option("--image", image_, "height x width x channels")->capture_default_str();
    command.add_option("--rounds", rounds_, "measurements; the medians are reported")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    command.add_option("--dump", dump_, "also write one step of the model as .npy files to this folder");
  }

  Rows run() override {
    settings_.image = parse_image(image_);
    if (!dump_.empty() && models_.size() != 1) throw ConfigError("--dump takes one --model");
    omp_set_num_threads(threads_);
    Rows rows;
    for (const std::string& model : models_) {
      settings_.model = model;
      if (!dump_.empty()) dump_step(settings_, dump_);
      rows.push_back(measure());
    }
    return rows;
  }

 private:
  nlohmann::ordered_json measure() const {
    TrainingStep step(settings_);
    const auto one_step = [&] {
      step.compute_gradients();
      step.update();
    };
    LargeProduct product;
    one_step();  // makes the plans
    one_step();
    product.run();
    std::vector<double> step_seconds, product_seconds;
    // Both alternate, and several short steps stand against one product: whatever else the machine does hits both.
    const int steps = std::max(1, static_cast<int>(seconds_of([&] { product.run(); }) / seconds_of(one_step)));
    for (int round = 0; round < rounds_; ++round) {
      product_seconds.push_back(seconds_of([&] { product.run(); }));
      for (int i = 0; i < steps; ++i) step_seconds.push_back(seconds_of(one_step));
    }
    const double seconds = percentile(step_seconds, 0.5);
    const auto batch = static_cast<double>(settings_.batch);
    const double rate = step.network().training_flops() * batch / seconds;
    const double product_rate = LargeProduct::flops() / percentile(product_seconds, 0.5);
    return {{"model", settings_.model},      {"batch", settings_.batch},
            {"threads", threads_},           {"samples_per_second", batch / seconds},
            {"gflops", rate * 1e-9},         {"gemm_gflops", product_rate * 1e-9},
            {"of_gemm", rate / product_rate}};
  }

  StepSettings settings_;
  std::vector<std::string> models_{"vgg16", "resnet20"};
  std::string image_ = "32x32x3";
  std::string dump_;
  int threads_ = 1;
  int rounds_ = 15;
};

const Registration<BenchmarkEntry> registration{
    {{"step", "rate of training steps, as a share of the rate of large matrix products"},
     [] { return std::make_unique<StepBenchmark>(); }}};

}  // namespace
}  // namespace dragonn::bench

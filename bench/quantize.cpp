// SPDX-License-Identifier: MIT
/// `dragonn-bench quantize`: seconds in which a quantizer encodes a gradient, takes the sent values out of the
/// residual, and adds up the codes of all ranks, compared with the rate at which this machine reads the gradient in the
/// same run.
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
#include "compress/memory.h"
#include "kernels/devices.h"

namespace dragonn::bench {
namespace {

using codec::QuantizerEntry;

class QuantizeBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    add_device_option(command, device_name_);
    add_list_option(command, "--quantizer", quantizers_,
                    "Quantizers to measure, or all (dragonn-train --list names them)");
    add_set_option(command, assignments_, "Override a setting of a quantizer, such as qsgd.levels=7 (repeatable)");
    add_list_option(command, "--numel", sizes_, "Elements of the gradient")->check(gradient_sizes());
    command.add_option("--ranks", ranks_, "Ranks whose codes are added up")->check(CLI::Range(1, 4096));
    command.add_option("--distribution", distribution_, "Distribution that the gradient is drawn from")
        ->check(CLI::IsMember(distributions()));
    add_threads_option(command, threads_);
    add_rounds_option(command, rounds_);
  }

  Rows run(Progress& progress) override {
    device_ = device_of(device_name_);
    omp_set_num_threads(threads_);
    if (quantizers_ == std::vector<std::string>{"all"}) quantizers_ = Registry<QuantizerEntry>::instance().names();
    settings_ = method_settings<QuantizerEntry>(quantizers_, assignments_);
    const double numel_per_round = std::accumulate(sizes_.begin(), sizes_.end(), 0.0);
    progress.plan(numel_per_round * (rounds_ + 1) * static_cast<double>(quantizers_.size()));
    Rows rows;
    for (const std::size_t numel : sizes_) {
      std::vector<float> values(numel);
      draw_gradient(distribution_, 1, values);
      const Buffer<float> gradient = on_device(values, device_);
      Buffer<float> sum(numel, device_);
      for (const std::string& name : quantizers_) measure(name, gradient, sum, progress, rows);
    }
    return rows;
  }

 private:
  void measure(const std::string& name, const Buffer<float>& gradient, Buffer<float>& sum, Progress& progress,
               Rows& rows) const {
    const auto& entry = Registry<QuantizerEntry>::instance().at(name);
    const auto& memory_entry = Registry<compress::MemoryEntry>::instance().at(entry.unbiased ? "none" : "residual");
    const std::size_t numel = gradient.size();
    const auto quantizer = entry.make(settings_.at(name));
    const auto memory = memory_entry.make(Settings(memory_entry.settings), numel, 0.0f, false, device_);
    const std::size_t code_bytes = quantizer->code_bytes(numel);
    Buffer<std::byte> codes(code_bytes * static_cast<std::size_t>(ranks_), device_);
    const View<std::byte> mine = codes.view().subview(0, code_bytes);

    std::vector<double> read, encode, settle, decode;
    // All alternate, so that other work on the machine affects them alike.
    for (int round = -1; round < rounds_; ++round) {
      const double reading = read_seconds(device_, gradient.view(), sum.view());
      const double encoding = seconds_on(device_, [&] {
        const kernels::PassResult& pass = memory->compensate(quantizer->plan(), gradient.view(), 1.0f);
        quantizer->encode(memory->accumulated(), {.step = static_cast<std::uint64_t>(round + 1), .pass = &pass}, mine);
      });
      const double settling = seconds_on(device_, [&] { memory->settle({.codec = quantizer.get(), .code = mine}); });
      if (round < 0) {  // the first touches the memory; what is added up need not be of different ranks
        for (int rank = 1; rank < ranks_; ++rank) {
          kernels::transfer(View<const std::byte>(mine),
                            codes.view().subview(static_cast<std::size_t>(rank) * code_bytes, code_bytes));
        }
      }
      const double decoding = seconds_on(device_, [&] { quantizer->sum(codes.view(), {}, sum.view()); });
      progress.advance(static_cast<double>(numel), fmt::format("{}, {} elements, round {}", name, numel, round + 1));
      if (round < 0) continue;
      read.push_back(reading);
      encode.push_back(encoding);
      settle.push_back(settling);
      decode.push_back(decoding);
    }
    rows.push_back(row(name, "encode", encode, numel, code_bytes, read));
    if (!entry.unbiased)
      rows.push_back(row(name, "settle", settle, numel, code_bytes, read));  // otherwise there is no residual
    rows.push_back(row(name, "decode", decode, numel, code_bytes, read));
  }

  /// @param stage the part of the exchange that took the seconds.
  nlohmann::ordered_json row(const std::string& name, const char* stage, const std::vector<double>& seconds,
                             std::size_t numel, std::size_t code_bytes, const std::vector<double>& read_seconds) const {
    const auto elements = static_cast<double>(numel);
    const double median = percentile(seconds, 0.5);
    const double read = percentile(read_seconds, 0.5);
    return {{"quantizer", name},
            {"stage", stage},
            {"device", device_name_},
            {"numel", numel},
            {"distribution", distribution_},
            {"threads", threads_},
            {"ranks", ranks_},
            {"seconds_median", median},
            {"seconds_p10", percentile(seconds, 0.1)},
            {"seconds_p90", percentile(seconds, 0.9)},
            {"gigabytes_per_second", elements * sizeof(float) / median * 1e-9},
            {"bits_per_element", static_cast<double>(code_bytes) * 8 / elements},
            {"read_gigabytes_per_second", elements * sizeof(float) / read * 1e-9},
            {"of_read", read / median}};
  }

  std::string device_name_ = "cpu";
  Device device_;
  std::vector<std::string> quantizers_{"all"};
  std::vector<std::string> assignments_;
  MethodSettings settings_;
  std::vector<std::size_t> sizes_{std::size_t{1} << 24};
  int ranks_ = 4;
  std::string distribution_ = "laplace";
  int threads_ = 1;
  int rounds_ = 15;
};

const Registration<BenchmarkEntry> registration{
    {{"quantize", "Measures quantizers, against the machine's rate of reading"},
     [] { return std::make_unique<QuantizeBenchmark>(); },
     {.conditions = {"device", "numel", "distribution", "threads", "ranks"},
      .results = {"quantizer", "stage", "seconds_median", "gigabytes_per_second", "bits_per_element", "of_read"}},
     {"quantize", "quantize --quantizer qsgd --set qsgd.levels=7 --ranks 8",
      "quantize --numel 1000000,16000000 --wide"}}};

}  // namespace
}  // namespace dragonn::bench

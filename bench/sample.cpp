// SPDX-License-Identifier: MIT
/// `dragonn-bench sample`: the rate at which a language model takes a prompt and then single tokens, on the CPU. A
/// token reads all parameters once, so its rate stands against that of reading them by a plain loop in the same run.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>

#include "bench/benchmark.h"
#include "bench/device_timer.h"
#include "bench/options.h"
#include "bench/training_step.h"
#include "core/error.h"
#include "core/rng.h"
#include "layers/generator.h"

namespace dragonn::bench {
namespace {

class SampleBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--model", model_, "Language model to measure");
    add_set_option(command, model_settings_, "Override a setting of the model, such as layers=24 (repeatable)",
                   "KEY=VALUE");
    command.add_option("--vocabulary", vocabulary_, "Tokens that there are")->check(CLI::Range(2, 1 << 24));
    add_list_option(command, "--prompt", prompts_, "Tokens of the prompt")->check(CLI::Range(1, 1 << 20));
    command.add_option("--tokens", tokens_, "Tokens behind it, one by one")->check(CLI::Range(1, 1 << 20));
    add_threads_option(command, threads_);
    add_rounds_option(command, rounds_);
  }

  Rows run(Progress& progress) override {
    omp_set_num_threads(threads_);
    progress.plan(static_cast<double>(prompts_.size()) * rounds_);
    StepSettings settings = default_step(model_);
    settings.model_settings = model_settings_;
    settings.batch = 1;
    settings.classes = vocabulary_;
    settings.sample = {std::ranges::max(prompts_) + tokens_};
    TrainingStep model(settings);
    layers::Network& network = model.network();
    layers::Generator generator(network.graph(), network.arena(), settings.sample[0]);
    Rows rows;
    for (const std::int64_t prompt : prompts_) {
      nlohmann::ordered_json row = describe(settings);
      row.update(measure(generator, network.arena(), prompt, progress));
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  nlohmann::ordered_json measure(layers::Generator& generator, const ParameterArena& arena, std::int64_t prompt,
                                 Progress& progress) const {
    Rng stream(1, "bench sample");
    std::vector<std::int32_t> text;
    for (std::int64_t i = 0; i < prompt + tokens_; ++i)
      text.push_back(static_cast<std::int32_t>(stream.below(static_cast<std::uint64_t>(vocabulary_))));
    std::vector<double> prompt_seconds, token_seconds, reading_seconds;
    for (int round = -1; round < rounds_; ++round) {  // the one before the first makes the plans
      generator.clear();
      const double seconds =
          seconds_of([&] { generator.append(std::span(text).first(static_cast<std::size_t>(prompt))); });
      if (round >= 0) prompt_seconds.push_back(seconds);
      while (generator.size() < text.size() && (round >= 0 || generator.size() == static_cast<std::size_t>(prompt))) {
        const double next = seconds_of([&] { generator.append(std::span(text).subspan(generator.size(), 1)); });
        if (round >= 0) token_seconds.push_back(next);
      }
      reading_seconds.push_back(read_seconds({}, arena.values(), {}));
      if (round >= 0) progress.advance(1, fmt::format("{} tokens, round {}", prompt, round + 1));
    }
    const double token = percentile(token_seconds, 0.5), reading = percentile(reading_seconds, 0.5);
    return {{"threads", threads_},
            {"parameters", arena.size()},
            {"prompt", prompt},
            {"tokens", tokens_},
            {"prompt_tokens_per_second", static_cast<double>(prompt) / percentile(prompt_seconds, 0.5)},
            {"tokens_per_second", 1 / token},
            {"milliseconds", token * 1e3},
            {"read_milliseconds", reading * 1e3},
            {"of_read", reading / token}};
  }

  std::string model_ = "gpt2";
  std::vector<std::string> model_settings_;
  int vocabulary_ = 50257;
  std::vector<std::int64_t> prompts_{64};
  std::int64_t tokens_ = 64;
  int threads_ = 1;
  int rounds_ = 5;
};

const Registration<BenchmarkEntry> registration{
    {{"sample", "Measures how many tokens per second a language model reads and writes"},
     [] { return std::make_unique<SampleBenchmark>(); },
     {.conditions = {"model", "settings", "parameters", "threads", "tokens"},
      .results = {"prompt", "prompt_tokens_per_second", "tokens_per_second", "milliseconds", "of_read"}},
     {"sample --threads 2", "sample --threads 2 --set layers=24 --set hidden=1024 --set heads=16",
      "sample --prompt 1,64,960 --json -"}}};

}  // namespace
}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
#include "program/sample.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>

#include "core/error.h"
#include "core/log.h"
#include "core/printable.h"
#include "data/text/byte_pairs.h"
#include "layers/generator.h"
#include "layers/network.h"
#include "layers/token_sampler.h"
#include "trainer/config/config.h"
#include "trainer/run/run.h"
#include "trainer/weights/model_weights.h"

namespace dragonn::program {
namespace {

using Seconds = std::chrono::duration<double>;

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Returns "300 tokens at 75.2 a second".
std::string rate_text(std::size_t tokens, Seconds time) {
  return fmt::format("{} tokens at {:.1f} a second", tokens, static_cast<double>(tokens) / time.count());
}

class Sample {
 public:
  explicit Sample(CLI::App& command) {
    command.add_option("RUN_DIR", run_, "Run folder, of which the newest checkpoint counts, or a checkpoint");
    command
        .add_option("--prompt", prompt_, "Text to continue; -: the standard input; else it begins a text of its own")
        ->type_name("TEXT");
    command.add_option("--tokens", tokens_, "Tokens to write, at most (200)")
        ->check(CLI::Range(1, 1 << 30))
        ->type_name("N");
    command.add_option("--temperature", rules_.temperature, "Divides the logits; 0: always the most likely token (1)")
        ->type_name("T");
    command.add_option("--top-k", rules_.top_k, "Draw from the K most likely tokens; 0: from all (0)")->type_name("K");
    command.add_option("--top-p", rules_.top_p, "Draw from the fewest tokens that together have this probability (1)")
        ->type_name("P");
    command.add_option("--seed", seed_, "Another seed, another text (0)")->type_name("N");
    command.add_flag("--slide", slides_, "At the end of the context go on from its second half");
    command
        .add_option("--tokenizer", tokenizer_,
                    "Folder of the tokenizer, if the run's data.path does not have its files")
        ->type_name("DIR");
    command.add_option("--weights", weights_, "Weights in a safetensors file, with --config instead of RUN_DIR")
        ->type_name("FILE");
    command.add_option("--config", config_, "Read this config instead of the run's config.toml")->type_name("CONFIG");
    command.add_option("--set", overrides_, "Set a key, as data.window=1024 (repeatable)")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    command.add_option("--threads", threads_, "Threads; 0: one per processor")
        ->check(CLI::Range(0, 1024))
        ->type_name("N");
  }

  int run() {
    layers::TokenSampler sampler(rules_, seed_);
    if (threads_ > 0) omp_set_num_threads(threads_);
    const trainer::RunSpec config = load_config();
    const std::unique_ptr<data::Tokenizer> tokenizer = find_tokenizer(config);
    std::vector<std::int32_t> text = prompt_tokens(*tokenizer);
    layers::Network network = load_network(config);
    if (tokenizer->size() > static_cast<std::size_t>(network.classes()))
      throw ConfigError(
          fmt::format("the tokenizer has {} tokens, and the model {} only: it was trained with another one",
                      tokenizer->size(), network.classes()));
    layers::Generator generator(network.graph(), network.arena(), network.sample_shape()[0]);
    if (text.size() > generator.longest())
      throw ConfigError(fmt::format("the prompt has {} tokens, and the model sees {} at most (data.window)",
                                    text.size(), generator.longest()));
    print(prompt_);
    return write(*tokenizer, sampler, generator, text);
  }

 private:
  trainer::RunSpec load_config() const {
    if (run_.empty() == weights_.empty() || (run_.empty() && config_.empty()))
      throw ConfigError("expected either RUN_DIR, or --weights with --config; see dragonn sample --help");
    return trainer::load_config(config_.empty() ? trainer::config_of_run(run_) : config_, overrides_);
  }

  std::unique_ptr<data::Tokenizer> find_tokenizer(const trainer::RunSpec& config) const {
    if (!tokenizer_.empty()) return data::read_tokenizer(tokenizer_);
    if (config.data.name != "token_shards")
      throw ConfigError(
          fmt::format("data \"{}\" does not keep its tokenizer: expected a model that was trained on "
                      "\"token_shards\", or --tokenizer DIR",
                      config.data.name));
    return data::read_tokenizer(config.data.path);
  }

  /// Returns the prompt's tokens; the end of the text before, if it is empty.
  std::vector<std::int32_t> prompt_tokens(const data::Tokenizer& tokenizer) {
    if (prompt_ == "-") prompt_.assign(std::istreambuf_iterator<char>(std::cin), {});
    std::vector<std::int32_t> tokens;
    tokenizer.encoder()->encode(prompt_, tokens);
    if (tokens.empty()) tokens.push_back(tokenizer.end_of_text());
    return tokens;
  }

  layers::Network load_network(const trainer::RunSpec& config) const {
    std::uint64_t step = 0;
    if (weights_.empty()) return trainer::load_network(config, "sample", run_, step);
    layers::Network network = trainer::make_network(config);
    network.initialize(static_cast<std::uint64_t>(config.seed));
    for (const std::string& warning : trainer::import_weights(weights_, network, config.model.entry().weights))
      log::warning(0, "{}", warning);
    return network;
  }

  /// Writes what follows `text`, token by token, and then how fast that was.
  int write(const data::Tokenizer& tokenizer, layers::TokenSampler& sampler, layers::Generator& generator,
            std::vector<std::int32_t>& text) const {
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const std::size_t prompt = text.size();
    const auto start = now();
    std::span<const float> logits = generator.append(text);
    const Seconds reading = now() - start;
    data::CharacterStream characters;
    std::string_view reason;
    while (text.size() < prompt + tokens_) {
      // The model may have more tokens than the tokenizer, to fill a round number.
      const std::int32_t token = sampler.draw(logits.first(tokenizer.size()));
      text.push_back(token);
      if (token == tokenizer.end_of_text()) {
        reason = "; the text ends here";
        break;
      }
      print(characters.add(tokenizer.bytes(token)));
      if (text.size() == prompt + tokens_) break;
      if (generator.size() < generator.longest()) {
        logits = generator.append(std::span(text).last(1));
      } else if (slides_) {
        generator.clear();
        logits = generator.append(std::span(text).last((generator.longest() + 1) / 2));
      } else {
        reason = "; the context is full (data.window), and --slide goes on";
        break;
      }
    }
    print(characters.finish() + "\n");
    const Seconds writing = now() - start - reading;
    fmt::print(stderr, "dragonn: read {}, wrote {}{}\n", rate_text(prompt, reading),
               rate_text(text.size() - prompt, writing), reason);
    return 0;
  }

  layers::SamplingRules rules_;
  std::string prompt_;
  std::filesystem::path run_, config_, weights_, tokenizer_;
  std::vector<std::string> overrides_;
  std::size_t tokens_ = 200;
  std::uint64_t seed_ = 0;
  int threads_ = 0;
  bool slides_ = false;
};

}  // namespace

std::function<int()> declare_sample(CLI::App& command) {
  return [work = std::make_shared<Sample>(command)] { return work->run(); };
}

}  // namespace dragonn::program

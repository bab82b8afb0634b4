// SPDX-License-Identifier: MIT
#include "program/tokenize.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/choice.h"
#include "core/progress.h"
#include "core/units_text.h"
#include "data/text/byte_pairs.h"
#include "data/text/tokenize.h"

namespace dragonn::program {
namespace {

using Report = std::function<void(std::uint64_t, std::uint64_t)>;

template <class Work>
auto with_progress(const std::string& name, Work work) {
  Progress progress(name, /*enabled=*/true, /*seconds=*/10);
  std::uint64_t before = 0;
  return work([&](std::uint64_t bytes, std::uint64_t of) {
    progress.plan(static_cast<double>(of));
    progress.advance(static_cast<double>(bytes - before), bytes_text(static_cast<double>(bytes)));
    before = bytes;
  });
}

class Tokenize {
 public:
  explicit Tokenize(CLI::App& command) {
    command.add_option("TEXT", job_.texts, "Text files; each ends with a token of its own")->required();
    command.add_option("--output", job_.output, "Folder for the shards")->required()->type_name("DIR");
    auto* const choice = command.add_option_group("vocabulary", "One of");
    choice->add_option("--tokenizer", tokenizer_, "A folder with vocab.bpe and encoder.json, or characters.json")
        ->type_name("DIR");
    choice->add_option("--train", vocabulary_, "Byte pairs of these texts, this many tokens")
        ->check(CLI::Range(257, 65536))
        ->type_name("SIZE");
    choice->add_flag("--bytes", bytes_, "One token per byte");
    choice->add_flag("--characters", characters_, "One token per character of these texts");
    choice->require_option(1);
    command.add_option("--validation", job_.validation, "Text files for evaluation")->type_name("TEXT");
    command.add_option("--held-out", job_.held_out, "Share of the texts, their end, for evaluation (0)")
        ->check(CLI::Range(0.0, 0.9))
        ->type_name("SHARE");
    command.add_option("--invalid", invalid_, "Bytes that are not UTF-8: error, replace (by U+FFFD) or bytes (keep)")
        ->type_name("RULE");
    command.add_option("--shard-tokens", job_.shard_tokens, "Tokens of a shard (100000000)")
        ->check(CLI::Range(1, 1'000'000'000))
        ->type_name("N");
    command.add_option("--threads", threads_, "Threads; 0: one per processor")
        ->check(CLI::Range(0, 1024))
        ->type_name("N");
  }

  int run() {
    job_.invalid = choice_of<data::InvalidUtf8>("rule for bytes that are not UTF-8", invalid_);
    job_.threads = threads_ > 0 ? threads_ : std::max(1u, std::thread::hardware_concurrency());
    const std::unique_ptr<data::Tokenizer> tokenizer = vocabulary();
    const auto start = std::chrono::steady_clock::now();
    const data::TokenizeResult result =
        with_progress("tokenize", [&](const Report& report) { return data::tokenize(job_, *tokenizer, report); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{} tokens to train on, {} to evaluate on, vocabulary {}: {}\n", result.train_tokens,
               result.validation_tokens, tokenizer->size(), job_.output.string());
    const auto bytes = static_cast<double>(result.bytes - result.resumed_bytes);
    if (bytes == 0) {
      fmt::print("nothing was left to do\n");
    } else {
      fmt::print("{} in {}, {}/s\n", bytes_text(bytes), seconds_text(seconds), bytes_text(bytes / seconds));
    }
    return 0;
  }

 private:
  std::unique_ptr<data::Tokenizer> vocabulary() const {
    if (!tokenizer_.empty()) return data::read_tokenizer(tokenizer_);
    if (bytes_) return std::make_unique<data::BytePairs>(std::vector<data::Merge>{});
    return with_progress("count", [&](const Report& report) -> std::unique_ptr<data::Tokenizer> {
      if (characters_) return std::make_unique<data::Characters>(data::find_characters(job_, report));
      return std::make_unique<data::BytePairs>(data::train_byte_pairs(job_, vocabulary_, report));
    });
  }

  data::TokenizeJob job_;
  std::filesystem::path tokenizer_;
  std::size_t vocabulary_ = 0, threads_ = 0;
  bool bytes_ = false, characters_ = false;
  std::string invalid_ = "error";
};

}  // namespace

std::function<int()> declare_tokenize(CLI::App& command) {
  return [work = std::make_shared<Tokenize>(command)] { return work->run(); };
}

}  // namespace dragonn::program

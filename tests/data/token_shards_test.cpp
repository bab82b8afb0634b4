// SPDX-License-Identifier: MIT
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/file.h"
#include "data/text/token_shard.h"
#include "data/text/tokenize.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;
using Tokens = std::vector<std::uint16_t>;

const BytePairs kBytePairs(std::vector<Merge>{});

void write(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, text);
}

Tokens counting(std::size_t size, std::uint16_t from = 0) {
  Tokens tokens(size);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

/// Returns all tokens of one split, as bytes, with '|' for the ends of texts.
std::string text_of(const std::filesystem::path& folder, const std::string& prefix, const Tokenizer& pairs) {
  std::string text;
  for (int shard = 0;; ++shard) {
    const std::filesystem::path path = folder / (prefix + "_00000" + std::to_string(shard) + ".bin");
    if (!std::filesystem::exists(path)) return text;
    const TokenShard read(path);
    for (const std::uint16_t token : read.tokens()) {
      text += token == pairs.end_of_text() ? std::string("|") : std::string(pairs.bytes(token));
    }
  }
}

TokenizeResult run(const TokenizeJob& job, const Tokenizer& pairs = kBytePairs) {
  return tokenize(job, pairs, [](std::uint64_t done, std::uint64_t of) { CHECK(done <= of); });
}

TEST_SUITE("data") {
  TEST_CASE("a shard has llm.c's header, and a damaged one is refused") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "a.bin";
    write_token_shard(path, counting(5, 65530));
    const TokenShard shard(path);
    CHECK(Tokens(shard.tokens().begin(), shard.tokens().end()) == Tokens{65530, 65531, 65532, 65533, 65534});
    const std::string bytes = read_text_file(path);
    REQUIRE(bytes.size() == 1024 + 10);
    CHECK(bytes.substr(0, 13) == std::string("\x88\xD8\x34\x01\x01\0\0\0\x05\0\0\0\0", 13));  // 20240520, 1, 5
    CHECK(bytes.substr(1024, 2) == "\xFA\xFF");

    const auto error = [&](std::string changed) {
      write(path, changed);
      return error_of<DataError>([&] { const TokenShard refused(path); });
    };
    const auto with = [&](std::size_t at, char byte) {
      std::string changed = bytes;
      changed[at] = byte;
      return changed;
    };
    CHECK(contains(error(with(0, '\0')), "a.bin: the header's magic number is 20240384: a token shard has 20240520"));
    CHECK(contains(error(with(4, '\x07')), "a.bin: the header's version is 7: a token shard has 1"));
    CHECK(contains(error(with(8, '\x06')), "a.bin: the header's number of tokens is 6: a token shard has 5"));
    CHECK(contains(error(with(11, '\xFF')), "number of tokens is -16777211"));
    CHECK(contains(error(bytes.substr(0, bytes.size() - 1)), "number of tokens is 5: a token shard has 4"));
    CHECK(contains(error(bytes + "x"), "number of tokens is 5"));
    CHECK(contains(error(bytes.substr(0, 1000)), "1000 bytes are no token shard"));
    CHECK(contains(error(""), "0 bytes are no token shard"));
    CHECK(contains(error_of<ConfigError>([&] { const TokenShard missing(folder / "none.bin"); }), "none.bin"));
  }

  TEST_CASE("windows do not cross shards, and each is read once in an epoch, however many ranks share it") {
    const TemporaryFolder folder;
    write_token_shard(folder / "train_a.bin", counting(9));        // two windows of 4 and a label
    write_token_shard(folder / "train_b.bin", counting(4, 100));   // none: 4 tokens have 3 labels
    write_token_shard(folder / "train_c.bin", counting(12, 200));  // two
    write_token_shard(folder / "validation_a.bin", counting(5, 50));
    write(folder / "tokens.json", "{\"vocabulary\": 212}");
    const Overrides window{{"window", std::int64_t{4}}};
    const DatasetSplits splits = load_dataset("token_shards", folder.path(), window);
    CHECK(splits.train->size() == 4);
    CHECK(splits.train->classes() == 212);
    CHECK(splits.test->size() == 1);
    CHECK(read(*splits.train, 1).values == std::vector<float>{4, 5, 6, 7});
    CHECK(read(*splits.train, 1).labels == std::vector<std::int32_t>{5, 6, 7, 8});
    CHECK(read(*splits.train, 3).values == std::vector<float>{204, 205, 206, 207});
    CHECK(read(*splits.test, 0).labels == std::vector<std::int32_t>{51, 52, 53, 54});
    for (const int world : {1, 2, 4}) {
      std::multiset<float> first;
      for (int rank = 0; rank < world; ++rank) {
        const auto source = splits.train->training({.batch = 1, .rank = rank, .world = world});
        Batch batch = source->make_batch({});
        for (std::size_t step = 0; step < source->steps_per_epoch(); ++step) {
          source->fill(3, step, batch);
          first.insert(batch.input_view().host()[0]);
        }
      }
      CHECK(first == std::multiset<float>{0, 4, 200, 204});
    }
  }

  TEST_CASE("a token beyond the vocabulary is named, and so is a folder without shards or vocabulary") {
    const TemporaryFolder folder;
    write_token_shard(folder / "train_a.bin", counting(9));
    const auto load = [&](Overrides overrides) {
      overrides.push_back({"window", std::int64_t{4}});
      return load_dataset("token_shards", folder.path(), overrides);
    };
    CHECK(contains(error_of<ConfigError>([&] { load({}); }), "tokens.json: set data.vocabulary"));
    CHECK(contains(error_of<ConfigError>([&] {
                     load({{"vocabulary", std::int64_t{9}}});
                   }),
                   "no token shards 'validation_*.bin'"));
    write_token_shard(folder / "validation_a.bin", counting(9));
    const DatasetSplits splits = load({{"vocabulary", std::int64_t{8}}});
    CHECK(read(*splits.train, 0).values.size() == 4);
    CHECK(contains(error_of<DataError>([&] { read(*splits.train, 1); }),
                   "train_a.bin: token 8 at offset 1040 is beyond the vocabulary of 8"));
    write(folder / "tokens.json", "{\"vocabulary\": \"many\"}");
    CHECK(contains(error_of<DataError>([&] { load({}); }), "tokens.json has no number \"vocabulary\""));
    write(folder / "tokens.json", "{\"vocabulary\": 65537}");
    CHECK(contains(error_of<DataError>([&] { load({}); }), "tokens.json: a vocabulary of 65537: expected 1 to 65536"));
  }

  TEST_CASE("texts become shards, and their ends are held out between characters") {
    const TemporaryFolder folder;
    write(folder / "a.txt", "first text\n");
    write(folder / "b.txt", "second t\xC3\xA9xt");  // 13 bytes: of all 24, 3 are 12.5 %
    write(folder / "v.txt", "else");
    TokenizeJob job{.texts = {folder / "a.txt", folder / "b.txt"},
                    .validation = {folder / "v.txt"},
                    .held_out = 0.125,
                    .output = folder / "out"};
    const TokenizeResult result = run(job);
    CHECK(text_of(job.output, "train", kBytePairs) == "first text\n|second t\xC3\xA9|");
    CHECK(text_of(job.output, "validation", kBytePairs) == "xt|else|");
    CHECK(result.train_tokens == 23);
    CHECK(result.validation_tokens == 8);
    CHECK(result.resumed_bytes == 0);
    CHECK(load_dataset("token_shards", job.output, {{"window", std::int64_t{4}}}).train->classes() == 257);
    CHECK(BytePairs::read(job.output).size() == 257);
    // A second call finds all done; another job may not mix its shards into these.
    CHECK(run(job).resumed_bytes == result.bytes);
    job.held_out = 0;
    CHECK(contains(error_of<ConfigError>([&] { run(job); }), "has token shards of other texts"));
  }

  TEST_CASE("bytes that are not UTF-8 are refused, replaced or kept") {
    const TemporaryFolder folder;
    write(folder / "a.txt", "fine \xFF!");
    TokenizeJob job{.texts = {folder / "a.txt"}, .output = folder / "out"};
    CHECK(contains(error_of<DataError>([&] { run(job); }), "a.txt: byte 0xff at offset 5 is not UTF-8"));
    job.invalid = InvalidUtf8::kReplace;
    job.output = folder / "replaced";
    run(job);
    CHECK(text_of(job.output, "train", kBytePairs) == "fine \xEF\xBF\xBD!|");
    job.invalid = InvalidUtf8::kBytes;
    job.output = folder / "kept";
    run(job);
    CHECK(text_of(job.output, "train", kBytePairs) == "fine \xFF!|");
    job.texts.push_back(folder / "none.txt");
    CHECK(contains(error_of<ConfigError>([&] { run(job); }), "none.txt"));
  }

  TEST_CASE("a vocabulary of characters is those of the texts, in the order of their code points") {
    const TemporaryFolder folder;
    write(folder / "a.txt",
          "b\xC3\xA9"
          "b\n");
    write(folder / "v.txt", "a");
    TokenizeJob job{.texts = {folder / "a.txt"}, .validation = {folder / "v.txt"}, .output = folder / "out"};
    const Characters characters = find_characters(job, [](auto, auto) {});
    CHECK(characters.size() == 5);  // line feed, a, b, e with an accent, and the end
    run(job, characters);
    const TokenShard shard(job.output / "train_000000.bin");
    CHECK(Tokens(shard.tokens().begin(), shard.tokens().end()) == Tokens{2, 3, 2, 0, 4});
    const std::unique_ptr<Tokenizer> read = read_tokenizer(job.output);
    CHECK(read->decode(std::vector<std::int32_t>{2, 3, 2, 0, 4}) ==
          "b\xC3\xA9"
          "b\n");
    std::vector<std::int32_t> tokens;
    CHECK(contains(error_of<DataError>([&] { read->encoder()->encode("abc", tokens); }), "no character 'c'"));
    for (const char* wrong : {"[\"b\", \"a\"]", "[\"a\", \"a\"]", "[\"ab\"]", "[\"\"]", "[1]", "{}", "[\"a\""}) {
      write(job.output / "characters.json", wrong);
      CHECK(contains(error_of<DataError>([&] { read_tokenizer(job.output); }), "characters.json should be a list"));
    }
  }

  TEST_CASE("a call that was stopped goes on, with the shards of one that was not, for any number of threads") {
    const TemporaryFolder folder;
    std::string text;
    for (int line = 0; text.size() < (std::size_t{9} << 20); ++line)
      text += "line " + std::to_string(line) + " of a long text\n";
    write(folder / "long.txt", text);
    write(folder / "short.txt", "short");
    const BytePairs pairs = train_byte_pairs({.texts = {folder / "short.txt"}}, 300, [](auto, auto) {});
    TokenizeJob job{.texts = {folder / "long.txt", folder / "short.txt"},
                    .held_out = 0.2,
                    .output = folder / "whole",
                    .shard_tokens = 1'000'000};
    run(job, pairs);
    CHECK(text_of(job.output, "train", pairs) + text_of(job.output, "validation", pairs) ==
          text.substr(0, text_of(job.output, "train", pairs).size() - 1) + "|" +
              text.substr(text_of(job.output, "train", pairs).size() - 1) + "|short|");
    job.output = folder / "stopped";
    job.threads = 2;
    struct Stop {};
    int pieces = 0;
    CHECK_THROWS_AS(tokenize(job, pairs,
                             [&](std::uint64_t, std::uint64_t) {
                               if (++pieces == 1) throw Stop();
                             }),
                    Stop);
    CHECK(!std::filesystem::exists(job.output / "tokens.json"));
    CHECK(run(job, pairs).resumed_bytes > 0);
    for (const std::string prefix : {"train", "validation"}) {
      CHECK(text_of(job.output, prefix, pairs) == text_of(folder / "whole", prefix, pairs));
    }
    CHECK(!std::filesystem::exists(job.output / "tokenize.progress.json"));
  }
}

}  // namespace
}  // namespace dragonn::data

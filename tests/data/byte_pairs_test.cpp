// SPDX-License-Identifier: MIT
#include "data/text/byte_pairs.h"

#include <fstream>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/text/token_shard.h"
#include "data/text/tokenize.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> found;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = word_end(text, begin);
    REQUIRE(end > begin);
    found.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return found;
}

std::vector<std::int32_t> tokens_of(const BytePairs& pairs, const std::string& text) {
  std::vector<std::int32_t> tokens;
  pairs.encoder()->encode(text, tokens);
  return tokens;
}

/// Merges as the definition says: the pair with the lowest rank, leftmost first, until there is none.
std::vector<std::int32_t> merged_by_definition(const BytePairs& pairs, const std::string& text) {
  std::vector<std::int32_t> all;
  for (const std::string& word : words(text)) {
    std::vector<std::int32_t> tokens;
    for (const char byte : word) tokens.push_back(pairs.token_of_byte(static_cast<unsigned char>(byte)));
    for (;;) {
      std::int32_t best = -1;
      std::size_t place = 0;
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        const std::int32_t rank = pairs.rank(tokens[i], tokens[i + 1]);
        if (rank >= 0 && (best < 0 || rank < best)) best = rank, place = i;
      }
      if (best < 0) break;
      tokens[place] = BytePairs::kBytes + best;
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

std::unordered_map<std::string, std::uint64_t> counted(const std::string& text) {
  std::unordered_map<std::string, std::uint64_t> counts;
  for (const std::string& word : words(text)) ++counts[word];
  return counts;
}

std::string random_text(std::uint64_t seed, std::size_t size, std::string_view alphabet) {
  Rng rng(seed, "text", {});
  std::string text;
  while (text.size() < size) text += alphabet[rng.below(alphabet.size())];
  return text;
}

void write(const std::filesystem::path& path, const std::string& text) {
  write_file_atomically(path, text);
}

TEST_SUITE("data") {
  using Words = std::vector<std::string>;

  TEST_CASE("a stream of bytes gives characters as soon as they are whole") {
    CharacterStream characters;
    CHECK(characters.add("a\xC3") == "a");
    CHECK(characters.add("\xA9\xE2\x82") == "\xC3\xA9");
    CHECK(characters.add("\xAC\xF0\x9F\x98") == "\xE2\x82\xAC");
    CHECK(characters.add("") == "");
    CHECK(characters.add("\x80z") == "\xF0\x9F\x98\x80z");
    CHECK(characters.add("\xE2\x82") == "");
    CHECK(characters.finish() == "\xEF\xBF\xBD");
    CHECK(characters.finish() == "");
    Rng stream(1, "bytes");
    for (int round = 0; round < 200; ++round) {
      const std::vector<std::string> parts{"x",    "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xE2", "\xF0\x9F",
                                           "\x80", "\xFF",     "\xC1",         "\xED\xA0\x80"};
      std::string text, given;
      for (int i = 0; i < 8; ++i) text += parts[stream.below(parts.size())];
      for (const char byte : text) given += characters.add({&byte, 1});
      given += characters.finish();
      CHECK(given == with_replacements(text));
    }
  }

  TEST_CASE("words are those of GPT-2's pattern") {
    CHECK(words("Hello world") == Words{"Hello", " world"});
    CHECK(words("I'll say it's 42nd") == Words{"I", "'ll", " say", " it", "'s", " 42", "nd"});
    CHECK(words("a  b") == Words{"a", " ", " b"});  // the last blank goes to the word
    CHECK(words("a\n\n  b") == Words{"a", "\n\n ", " b"});
    CHECK(words("a\n\nb") == Words{"a", "\n", "\n", "b"});  // but no other white space does
    CHECK(words("a \n") == Words{"a", " \n"});
    CHECK(words(" ") == Words{" "});
    CHECK(words("!?'s x") == Words{"!?'", "s", " x"});
    CHECK(words("'S 's") == Words{"'", "S", " '", "s"});
    CHECK(words("na\xC3\xAFve \xE6\x97\xA5\xE6\x9C\xAC") == Words{"na\xC3\xAFve", " \xE6\x97\xA5\xE6\x9C\xAC"});
    CHECK(words("x\xC2\xB2 \xE2\x85\xA7") == Words{"x", "\xC2\xB2", " \xE2\x85\xA7"});  // superscripts are digits
    CHECK(words("a\xC2\xA0z") == Words{"a", "\xC2\xA0", "z"});                          // a blank that does not break
    CHECK(words("a\xFF\xFE z") == Words{"a", "\xFF\xFE", " z"});
  }

  TEST_CASE("merges are made in the order of their ranks") {
    // "abab" with merges ab, then (ab)(ab), and b+a, which is never the first.
    const BytePairs bytes(std::vector<Merge>{});
    const std::int32_t a = bytes.token_of_byte('a'), b = bytes.token_of_byte('b');
    const BytePairs pairs({{a, b}, {256, 256}, {b, a}});
    CHECK(pairs.size() == 260);
    CHECK(pairs.end_of_text() == 259);
    CHECK(tokens_of(pairs, "ababab") == std::vector<std::int32_t>{257, 256});
    CHECK(tokens_of(pairs, "bab") == std::vector<std::int32_t>{b, 256});
    CHECK(tokens_of(pairs, "baab") == std::vector<std::int32_t>{258, 256});
    CHECK(pairs.decode(tokens_of(pairs, "baab")) == "baab");
    CHECK(pairs.decode({}).empty());
  }

  TEST_CASE("GPT-2's first tokens are the bytes that print") {
    const BytePairs pairs(std::vector<Merge>{});
    CHECK(tokens_of(pairs, "!~") == std::vector<std::int32_t>{0, 93});
    CHECK(tokens_of(pairs, " ") == std::vector<std::int32_t>{220});
    CHECK(tokens_of(pairs, "\n") == std::vector<std::int32_t>{198});
    CHECK(tokens_of(pairs, std::string(1, '\0')) == std::vector<std::int32_t>{188});
    CHECK(tokens_of(pairs, "\xFF") == std::vector<std::int32_t>{187});
  }

  TEST_CASE("short and long words are merged as the definition says, and decode to themselves") {
    const std::string training = random_text(1, 20000, "aab bcd e\n");
    const BytePairs pairs(train_merges(counted(training), 400));
    CHECK(pairs.merges().size() == 143);
    for (std::uint64_t seed = 2; seed < 12; ++seed) {
      for (const std::size_t size : {1, 20, 31, 33, 200}) {
        const std::string text = random_text(seed, size, seed % 2 == 0 ? "abcd" : "abcde \n'\xC3\xA9");
        CHECK(tokens_of(pairs, text) == merged_by_definition(pairs, text));
        CHECK(pairs.decode(tokens_of(pairs, text)) == text);
      }
    }
  }

  TEST_CASE("training takes the most frequent pair, and of equal ones the smaller tokens") {
    const BytePairs bytes(std::vector<Merge>{});
    const auto byte = [&](char c) { return bytes.token_of_byte(static_cast<unsigned char>(c)); };
    const std::vector<Merge> merges = train_merges({{"aaab", 1}, {"ab", 2}, {"cd", 2}}, 300);
    REQUIRE(merges.size() == 2);  // after that no pair occurs twice
    CHECK(merges[0] == Merge{byte('a'), byte('b')});
    CHECK(merges[1] == Merge{byte('c'), byte('d')});
    CHECK(train_merges({{"ab", 9}}, 257).empty());  // a vocabulary of bytes and the end of text
    CHECK(train_merges({{"ab", 1}}, 300).empty());
  }

  TEST_CASE("a vocabulary is written and read, and a damaged one is refused") {
    const TemporaryFolder folder;
    const BytePairs pairs(train_merges(counted(random_text(3, 5000, "ab \xC3\xA9x\n")), 300));
    pairs.write(folder.path());
    const BytePairs read = BytePairs::read(folder.path());
    CHECK(read.merges() == pairs.merges());
    std::filesystem::rename(folder / "vocab.bpe", folder / "merges.txt");
    std::filesystem::rename(folder / "encoder.json", folder / "vocab.json");
    CHECK(BytePairs::read(folder.path()).merges() == pairs.merges());
    const std::string numbers = read_text_file(folder / "vocab.json");

    const auto error = [&](const std::string& merges) {
      write(folder / "merges.txt", merges);
      return error_of<DataError>([&] { BytePairs::read(folder.path()); });
    };
    CHECK(contains(error("#version: 0.2\na b\nab\n"), "merges.txt:3: 'ab' is no merge"));
    CHECK(contains(error("a b c\n"), "merges.txt:1: 'a b c' is no merge"));
    CHECK(contains(error("a b\nab cd\nc d\n"), "merges.txt:2: no line before this one makes 'cd'"));
    CHECK(contains(error("ab a\na b\n"), "merges.txt:1: no line before this one makes 'ab'"));
    CHECK(contains(error("a b\na b\n"), "merges.txt:2: an earlier line makes the same token"));
    CHECK(contains(error("a b\n"), "vocab.json should be an object with the numbers of 258 tokens"));
    write(folder / "vocab.json", numbers.substr(0, numbers.size() / 2));
    CHECK(contains(error("a b\n"), "vocab.json is not JSON, or truncated"));
    std::filesystem::remove(folder / "vocab.json");
    CHECK(contains(error_of<ConfigError>([&] { BytePairs::read(folder.path()); }), "vocab.json"));
  }

  TEST_CASE("what is not UTF-8 is replaced as Python does") {
    const std::string mark = "\xEF\xBF\xBD";
    CHECK(with_replacements("a\xFFz") == "a" + mark + "z");
    CHECK(with_replacements("\xE2\x82") == mark);                    // the beginning of a character
    CHECK(with_replacements("\xE2\x82z") == mark + "z");             // likewise
    CHECK(with_replacements("\xE0\x80\xAF") == mark + mark + mark);  // overlong
    CHECK(with_replacements("\xED\xA0\x80") == mark + mark + mark);  // a surrogate
    CHECK(with_replacements("\xF0\x9F\x98z") == mark + "z");
    CHECK(with_replacements("\xF4\x90\x80\x80") == mark + mark + mark + mark);
    CHECK(with_replacements("\xC3(") == mark + "(");
    CHECK(with_replacements("\xF0\x9F\x98\x80") == "\xF0\x9F\x98\x80");
  }
}

}  // namespace
}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "core/choice.h"
#include "core/error.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;

std::filesystem::path write_text(const TemporaryFolder& folder, const std::string& text) {
  write_bytes(folder / "text.txt", Bytes(text.begin(), text.end()));
  return folder / "text.txt";
}

TEST_SUITE("data") {
  TEST_CASE("utf8_length takes well-formed characters only") {
    const auto length = [](const char* text) { return utf8_length(text, 0); };
    CHECK(length("a") == 1);
    CHECK(length("\xC3\xA9") == 2);          // U+00E9
    CHECK(length("\xE2\x82\xAC") == 3);      // U+20AC
    CHECK(length("\xF0\x9F\x98\x80") == 4);  // U+1F600
    CHECK(length("\xF4\x8F\xBF\xBF") == 4);  // U+10FFFF
    CHECK(length("\x80") == 0);              // a continuation
    CHECK(length("\xC0\xAF") == 0);          // an overlong slash
    CHECK(length("\xE0\x80\xAF") == 0);      // an overlong slash
    CHECK(length("\xED\xA0\x80") == 0);      // a surrogate
    CHECK(length("\xF4\x90\x80\x80") == 0);  // beyond U+10FFFF
    CHECK(length("\xE2\x82") == 0);          // cut short
    CHECK(length("\xC3(") == 0);
  }

  TEST_CASE("text that is not UTF-8 is named by file and line") {
    const TemporaryFolder folder;
    const std::filesystem::path path = write_text(folder, "fine\nalso \xC3\xA9\nbad \xFF here\n");
    BadSamples errors;
    const std::string message = error_of<DataError>([&] { read_utf8_file(path, errors); });
    CHECK(contains(message, "text.txt:3: byte 0xff at offset 17 is not UTF-8"));
    CHECK(contains(error_of<ConfigError>([&] { read_utf8_file(folder / "none.txt", errors); }), "none.txt"));
  }

  TEST_CASE("lines that are not UTF-8 can be left out") {
    const TemporaryFolder folder;
    BadSamples skipped = skipping();
    CHECK(read_utf8_file(write_text(folder, "fine\nbad \xFF\n\n\xC3\nlast"), skipped) == "fine\n\nlast");
    CHECK(skipped.count() == 2);
    CHECK(contains(skipped.first(), "text.txt:2: byte 0xff at offset 9 is not UTF-8"));
  }

  TEST_CASE("words end at blanks, lines at a mark, and the rare ones are unknown") {
    const std::string text = "the cat the\n\n a\tdog  the cat\r\nend";
    const Vocabulary vocabulary(text, {.level = TokenLevel::kWord, .minimum_count = 2});
    CHECK(vocabulary.size() == 4);
    CHECK(vocabulary.token(0) == "<unk>");
    CHECK(vocabulary.token(1) == "<eos>");  // 4 lines
    CHECK(vocabulary.token(2) == "the");    // 3
    CHECK(vocabulary.token(3) == "cat");    // 2
    CHECK(vocabulary.encode(text) == std::vector<std::int32_t>{2, 3, 2, 1, 1, 0, 0, 2, 3, 1, 0, 1});
    CHECK(vocabulary.encode("dog the").at(0) == Vocabulary::kUnknown);
    CHECK(vocabulary.encode("").empty());
  }

  TEST_CASE("a vocabulary has a largest size, and takes the unknown mark of a text as its own") {
    const std::string text = "b a b <unk> <unk> <unk> c a";
    CHECK(Vocabulary(text, {}).size() == 5);  // <unk>, b, a, c, <eos>
    const Vocabulary small(text, {.level = TokenLevel::kWord, .minimum_count = 1, .largest = 3});
    CHECK(small.size() == 3);
    CHECK(small.token(1) == "b");
    CHECK(small.encode(text) == std::vector<std::int32_t>{1, 2, 1, 0, 0, 0, 0, 2, 0});
  }

  TEST_CASE("characters are those of UTF-8, the newline included") {
    const std::string text = "a\xC3\xA9\na";
    const Vocabulary vocabulary(text, {.level = TokenLevel::kCharacter});
    CHECK(vocabulary.size() == 4);
    CHECK(vocabulary.token(2) == "\xC3\xA9");
    CHECK(vocabulary.encode(text) == std::vector<std::int32_t>{1, 2, 3, 1});
    CHECK(vocabulary.number("x") == Vocabulary::kUnknown);
  }

  TEST_CASE("an unknown token level is an error that names the levels") {
    CHECK(choice_of<TokenLevel>("token level", "word") == TokenLevel::kWord);
    CHECK(choice_of<TokenLevel>("token level", "character") == TokenLevel::kCharacter);
    CHECK(contains(error_of<ConfigError>([] { choice_of<TokenLevel>("token level", "letter"); }), "character"));
  }

  TEST_CASE("real texts have the tokens that their description counts") {
    const std::filesystem::path folder = real_data("text");
    if (folder.empty()) return;
    BadSamples errors;
    const std::string valid = read_utf8_file(folder / "wikitext-2" / "valid.txt", errors);
    const std::string test = read_utf8_file(folder / "wikitext-2" / "test.txt", errors);
    const Vocabulary both(valid + test, {});
    CHECK(both.size() == 18328);  // <unk> is a word of the texts
    CHECK(both.encode(valid).size() == 217646);
    CHECK(both.encode(test).size() == 245569);
    const std::string plays = read_utf8_file(folder / "tinyshakespeare" / "input.txt", errors);
    const Vocabulary characters(plays, {.level = TokenLevel::kCharacter});
    CHECK(characters.size() == 65 + 1);
    CHECK(characters.encode(plays).size() == 1115394);
  }
}

}  // namespace
}  // namespace dragonn::data

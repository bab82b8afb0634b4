// SPDX-License-Identifier: MIT
#include "core/printable.h"

#include <string>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "tests/core/temporary_folder.h"

namespace dragonn {
namespace {

TEST_SUITE("core") {
  TEST_CASE("printable text keeps its words and loses what moves a cursor, begins a line or turns a text around") {
    CHECK(printable("caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80") == "caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80");
    CHECK(printable("a\x1b[2J\nb\rc\td\x7f") == "a?[2J?b?c?d?");
    CHECK(printable("a\xc2\x9b"
                    "b") == "a?b");  // C1, in UTF-8
    CHECK(printable("a\x9b"
                    "b\xc3") == "a?b?");  // C1 in one byte, and half a character
    CHECK(printable("a\xe2\x80\xae"
                    "b\xe2\x81\xa6"
                    "c\xe2\x80\xa8"
                    "d") == "a?b?c?d");                                          // direction, a line separator
    CHECK(printable("\xe2\x80\x94\xe2\x80\xa6") == "\xe2\x80\x94\xe2\x80\xa6");  // a dash and an ellipsis
    CHECK(printable(std::string_view("a\0b", 3)) == "a?b");
  }

  TEST_CASE("an excerpt is short, and never ends within a character") {
    const std::string exact(kLongestExcerpt, 'x');
    CHECK(excerpt(exact) == exact);
    CHECK(excerpt(exact + "y") == exact + "...");
    const std::string one_less(kLongestExcerpt - 1, 'x');
    CHECK(excerpt(one_less + "\xc3\xa9z") == one_less + "...");
    CHECK(excerpt(std::string(5'000'000, '\x80')).size() == kLongestExcerpt + 3);
    CHECK(excerpt("abcdef", 3) == "abc...");
  }

  TEST_CASE("an error is one printable line, however long and whatever it quotes") {
    CHECK(std::string(ConfigError("data/\x1b[31mred\nblue: no such file").what()) ==
          "data/?[31mred?blue: no such file");
    std::string huge(5'000'000, 'x');
    huge.replace(0, 5, "begin").replace(huge.size() - 3, 3, "end");
    const std::string text = Error(huge).what();
    CHECK(text.size() < kLongestMessage + 10);
    CHECK(text.starts_with("beginxx"));
    CHECK(text.ends_with("xxend"));
  }

  TEST_CASE("a log line is printable") {
    const test::TemporaryFolder folder;
    log::set_file(folder / "log.txt");
    log::info(0, "left out: {}", "a\x1b]0;title\x07\nb");
    log::set_file("");
    CHECK(read_text_file(folder / "log.txt").ends_with(" left out: a?]0;title??b\n"));
  }
}

}  // namespace
}  // namespace dragonn

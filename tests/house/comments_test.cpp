// SPDX-License-Identifier: MIT
/// Tests that doc comments are sentences: editors show them away from the code, where a fragment cannot be read.
#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/house/source_tree.h"

namespace dragonn::test {
namespace {

/// Words that begin a fragment: prepositions, conjunctions, relative and question words.
constexpr std::array kFragmentWords{
    "Above",   "After",  "Against", "Also",     "And",  "As",   "At",    "Because", "Before", "Behind",
    "Below",   "Beside", "Between", "But",      "By",   "For",  "From",  "How",     "If",     "In",
    "Instead", "Into",   "Like",    "Likewise", "Near", "Nor",  "Not",   "Of",      "On",     "Or",
    "Over",    "Since",  "So",      "Than",     "That", "Then", "To",    "Under",   "Until",  "What",
    "When",    "Where",  "Which",   "While",    "Who",  "Whom", "Whose", "Why",     "With",   "Without"};

struct Comment {
  std::size_t line = 0;   ///< index of its first line
  std::string text = {};  ///< without the marks, in one line
};

std::string_view without_indentation(const std::string& line) {
  return std::string_view(line).substr(std::min(line.find_first_not_of(' '), line.size()));
}

/// Returns the end of the comment whose lines begin with `mark`, from line `begin` on; `begin` itself if there is none.
std::size_t end_of_comment(const std::vector<std::string>& lines, std::size_t begin, std::string_view mark) {
  const auto is_inside = [mark](const std::string& line) {
    const std::string_view text = without_indentation(line);
    return text.starts_with(mark) && !text.starts_with("///<");
  };
  const auto first = lines.begin() + static_cast<std::ptrdiff_t>(begin);
  return static_cast<std::size_t>(std::find_if_not(first, lines.end(), is_inside) - lines.begin());
}

/// Returns the doc comments of a file, and the comment at its head, whatever its mark.
std::vector<Comment> doc_comments(const std::vector<std::string>& lines) {
  std::vector<Comment> comments;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::size_t end = end_of_comment(lines, i, i == 1 ? "//" : "///");
    if (end == i) continue;
    comments.push_back({.line = i});
    for (; i < end; ++i) {
      const std::string_view text = without_indentation(lines[i]);
      comments.back().text += " " + std::string(text.substr(std::min(text.find_first_not_of("/ "), text.size())));
    }
    comments.back().text.erase(0, 1);
  }
  return comments;
}

std::string first_word(const std::string& text) {
  return {text.begin(), std::ranges::find_if_not(text, [](unsigned char c) { return std::isalpha(c) != 0; })};
}

/// Returns what is wrong with a doc comment; empty if nothing is. Code and quoted examples may stand at both ends.
std::string fault_of(const std::string& text) {
  if (text.empty()) return "is empty";
  const bool begins = std::isupper(static_cast<unsigned char>(text.front())) != 0;
  if (!begins && std::string_view("`\"@").find(text.front()) == std::string_view::npos)
    return "begins with neither a capital letter nor code in backquotes";
  if (std::ranges::find(kFragmentWords, first_word(text)) != kFragmentWords.end())
    return "begins with '" + first_word(text) + "': begin with what the thing is or does";
  if (std::string_view(".:`\"").find(text.back()) == std::string_view::npos) return "does not end with a full stop";
  return "";
}

TEST_SUITE("house") {
  TEST_CASE("every doc comment begins and ends as a sentence") {
    std::vector<std::string> files = code_files();
    std::ranges::move(files_in("examples", {".h", ".cpp"}), std::back_inserter(files));
    for (const std::string& file : files) {
      for (const Comment& comment : doc_comments(lines_of(file))) {
        const std::string fault = fault_of(comment.text);
        CHECK_MESSAGE(fault.empty(), place(file, comment.line), comment.text, "\n", fault);
      }
    }
  }

  TEST_CASE("fragments are told from sentences") {
    for (const char* fragment : {"", "Of no ranks.", "How memory is had.", "That the gradient was multiplied with",
                                 "values of the sum.", "Returns the sum"}) {
      CAPTURE(fragment);
      CHECK_FALSE(fault_of(fragment).empty());
    }
    for (const char* sentence : {"Returns the sum.", "`values` are overwritten.", "\"32x32x3\"", "A sum of:"}) {
      CAPTURE(sentence);
      CHECK(fault_of(sentence).empty());
    }
  }
}

}  // namespace
}  // namespace dragonn::test

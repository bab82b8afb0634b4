// SPDX-License-Identifier: MIT
#include "data/text/vocabulary.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "data/folder.h"
#include "data/text/utf8.h"

namespace dragonn::data {
namespace {

constexpr std::size_t kLongestWord = 100;         ///< characters
constexpr std::size_t kMaxTokens = 1u << 24;      ///< tokens travel as floats
constexpr std::string_view kContinuation = "##";  ///< before a piece that does not begin its word

/// Calls take(token) for each token of a text, in order.
template <class Take>
void split(std::string_view text, TokenLevel level, const Take& take) {
  if (level == TokenLevel::kWord) {
    return for_each_line(text, [&](std::string_view line) {
      for_each_word(line, take);
      take(kEndOfLine);
    });
  }
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t length = utf8_length(text, position);
    DRAGONN_CHECK(length > 0, "text that is not UTF-8 at byte {}", position);
    take(text.substr(position, length));
    position += length;
  }
}

struct Candidate {
  std::string_view token;
  std::int64_t count = 0;
};

}  // namespace

Vocabulary::Vocabulary(std::string_view text, const VocabularyRules& rules)
    : level_(rules.level), tokens_{std::string(kUnknownToken)} {
  std::vector<Candidate> candidates;  // in the order of first appearance
  std::unordered_map<std::string_view, std::size_t> places;
  split(text, rules.level, [&](std::string_view token) {
    const auto [place, is_new] = places.try_emplace(token, candidates.size());
    if (is_new) candidates.push_back({token});
    ++candidates[place->second].count;
  });
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return candidate.count < rules.minimum_count || candidate.token == kUnknownToken;
  });
  std::ranges::stable_sort(candidates, std::greater{}, &Candidate::count);
  if (rules.largest > 0 && candidates.size() >= static_cast<std::size_t>(rules.largest)) {
    candidates.resize(static_cast<std::size_t>(rules.largest) - 1);
  }
  for (const Candidate& candidate : candidates) tokens_.emplace_back(candidate.token);
  for (std::size_t number = 0; number < tokens_.size(); ++number) {
    numbers_.emplace(tokens_[number], static_cast<std::int32_t>(number));
  }
}

std::int32_t Vocabulary::number(std::string_view token) const {
  const auto found = numbers_.find(token);
  return found == numbers_.end() ? kUnknown : found->second;
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int32_t> numbers;
  split(text, level_, [&](std::string_view token) { numbers.push_back(number(token)); });
  return numbers;
}

/// A word as the vocabulary spells it, with the bytes of the text that each of its characters comes from.
struct WordPiece::Word {
  struct Origin {
    std::uint32_t begin, end;
  };
  std::string text;
  std::vector<std::size_t> starts;  ///< of the characters in `text`
  std::vector<Origin> origins;

  void add(std::uint32_t character, Origin origin) {
    starts.push_back(text.size());
    origins.push_back(origin);
    append_character(character, text);
  }
  void clear() {
    text.clear();
    starts.clear();
    origins.clear();
  }
};

WordPiece::WordPiece(const std::filesystem::path& path, bool lower_case) : lower_case_(lower_case) {
  const std::string text = read_text_file(path);
  std::size_t line = 0;
  for_each_line(text, [&](std::string_view token) {
    const TextPlace place{path, ++line};
    if (token.ends_with('\r')) token.remove_suffix(1);
    require_utf8(token, place, static_cast<std::size_t>(token.data() - text.data()));
    if (token.empty()) throw DataError(place.text() + ": an empty line: it should be a token");
    if (line > kMaxTokens) throw DataError(fmt::format("{}: more than {} tokens", place.text(), kMaxTokens));
    if (!numbers_.emplace(token, static_cast<std::int32_t>(line - 1)).second) {
      throw DataError(fmt::format("{}: the token '{}' is there twice", place.text(), excerpt(token)));
    }
  });
  unknown_ = required("[UNK]", path);
  classify_ = required("[CLS]", path);
  separator_ = required("[SEP]", path);
  padding_ = required("[PAD]", path);
}

std::int32_t WordPiece::required(const std::string& token, const std::filesystem::path& path) const {
  const auto found = numbers_.find(token);
  if (found != numbers_.end()) return found->second;
  throw DataError(
      fmt::format("{}: no {}: a WordPiece vocabulary has [UNK], [CLS], [SEP] and [PAD], a token in each line",
                  path.string(), token));
}

std::vector<Piece> WordPiece::encode(std::string_view text) const {
  std::vector<Piece> pieces;
  Word word;
  const auto end_word = [&] {
    if (!word.starts.empty()) append(word, pieces);
    word.clear();
  };
  for (std::size_t position = 0; position < text.size();) {
    const auto begin = static_cast<std::uint32_t>(position);
    std::uint32_t character = next_character(text, position);
    const Word::Origin origin{begin, static_cast<std::uint32_t>(position)};
    if (is_control(character)) continue;
    if (is_space(character)) {
      end_word();
      continue;
    }
    if (lower_case_) character = without_accent(data::lower_case(character));
    if (character == 0) {  // an accent of its own goes with the letter before it
      if (!word.origins.empty()) word.origins.back().end = origin.end;
      continue;
    }
    const bool alone = is_punctuation(character) || is_ideograph(character);
    if (alone) end_word();
    word.add(character, origin);
    if (alone) end_word();
  }
  end_word();
  return pieces;
}

void WordPiece::append(const Word& word, std::vector<Piece>& pieces) const {
  const std::size_t characters = word.starts.size(), before = pieces.size();
  const auto start_of = [&](std::size_t i) { return i < characters ? word.starts[i] : word.text.size(); };
  std::string piece;
  for (std::size_t begin = 0; begin < characters && characters <= kLongestWord;) {
    std::size_t end = characters;
    auto found = numbers_.end();
    for (; end > begin; --end) {
      piece = begin == 0 ? std::string_view() : kContinuation;
      piece.append(word.text, start_of(begin), start_of(end) - start_of(begin));
      found = numbers_.find(piece);
      if (found != numbers_.end()) break;
    }
    if (found == numbers_.end()) {
      pieces.resize(before);
      break;
    }
    pieces.push_back({found->second, word.origins[begin].begin, word.origins[end - 1].end});
    begin = end;
  }
  if (pieces.size() == before) pieces.push_back({unknown_, word.origins.front().begin, word.origins.back().end});
}

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include "data/text/squad_file.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "data/text/utf8.h"

namespace dragonn::data {
namespace {

using Json = nlohmann::json;

/// SQuAD 1.1 has 9 lists and objects within each other. A value of JSON takes many times the memory of its bracket.
constexpr int kDeepest = 32;

/// Reads the members of JSON values of one file.
class Reader {
 public:
  explicit Reader(std::filesystem::path path) : path_(std::move(path)) {}

  Json parse() const {
    try {
      const auto check = [&](int depth, Json::parse_event_t, Json&) {
        if (depth > kDeepest) throw fault(fmt::format("nested more than {} deep", kDeepest));
        return true;
      };
      return Json::parse(read_text_file(path_), check);
    } catch (const Json::parse_error& error) {
      throw DataError(
          fmt::format("{}: byte {} is not JSON, or the file is truncated there", path_.string(), error.byte));
    } catch (const Json::out_of_range&) {
      throw fault("a number that no double holds");
    }
  }
  const Json& member(const Json& object, const char* key) const {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (found == object.end()) throw fault(fmt::format("no \"{}\" where SQuAD 1.1 has one", key));
    return *found;
  }
  const Json& list(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (!value.is_array()) throw fault(fmt::format("\"{}\" is no list", key));
    return value;
  }
  std::string text(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (!value.is_string()) throw fault(fmt::format("\"{}\" is no string", key));
    return value.get<std::string>();
  }
  DataError fault(const std::string& what) const { return DataError(path_.string() + ": " + what); }

  SquadQuestion question(const Json& value, const std::string& paragraph) const {
    SquadQuestion question{text(value, "id"), text(value, "question"), 0, {}};
    for (const Json& answer : list(value, "answers")) {
      const Json& place = member(answer, "answer_start");
      if (!place.is_number_unsigned()) throw fault("\"answer_start\" is no number of characters");
      SquadAnswer found{text(answer, "text"), byte_of(paragraph, place.get<std::size_t>())};
      if (found.text.empty() || paragraph.compare(found.begin, found.text.size(), found.text) != 0) {
        throw fault(fmt::format("question {}: the answer '{}' is not at character {} of its paragraph",
                                excerpt(question.id), excerpt(found.text), place.get<std::size_t>()));
      }
      question.answers.push_back(std::move(found));
    }
    if (question.answers.empty()) throw fault(fmt::format("question {}: no answer", excerpt(question.id)));
    return question;
  }

 private:
  /// Returns the byte of a character; the end of the text if there are not as many.
  static std::size_t byte_of(const std::string& text, std::size_t character) {
    std::size_t byte = 0;
    for (; character > 0 && byte < text.size(); --character) byte += std::max<std::size_t>(utf8_length(text, byte), 1);
    return std::min(byte, text.size());
  }

  std::filesystem::path path_;
};

/// Harmonic mean of precision and recall; a word counts as often as it is in both. Both may change their order.
double f1_of(std::vector<std::string_view> answer, std::vector<std::string_view> truth) {
  std::ranges::sort(answer);
  std::ranges::sort(truth);
  std::vector<std::string_view> common;
  std::ranges::set_intersection(answer, truth, std::back_inserter(common));
  if (common.empty()) return 0;
  return 2.0 * static_cast<double>(common.size()) / static_cast<double>(answer.size() + truth.size());
}

}  // namespace

SquadFile read_squad_file(const std::filesystem::path& path, BadSamples& bad) {
  const Reader reader(path);
  const Json root = reader.parse();
  SquadFile file;
  for (const Json& article : reader.list(root, "data")) {
    for (const Json& paragraph : reader.list(article, "paragraphs")) {
      file.paragraphs.push_back(reader.text(paragraph, "context"));
      if (file.paragraphs.back().size() > UINT32_MAX) throw reader.fault("a \"context\" of more than 4.29 GB");
      for (const Json& value : reader.list(paragraph, "qas")) {
        bad.accept([&] {
          SquadQuestion question = reader.question(value, file.paragraphs.back());
          question.paragraph = file.paragraphs.size() - 1;
          file.questions.push_back(std::move(question));
        });
      }
    }
  }
  return file;
}

std::string normalized_answer(std::string_view answer) {
  std::string plain;
  for (std::size_t position = 0; position < answer.size();) {
    const std::uint32_t character = lower_case(next_character(answer, position));
    if (character < 0x80 && is_punctuation(character)) continue;
    append_character(is_space(character) ? ' ' : character, plain);
  }
  std::string text;
  for (const std::string_view word : words_of(plain)) {
    if (word == "a" || word == "an" || word == "the") continue;
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

AnswerScore score_answer(std::string_view answer, std::span<const std::string> truths) {
  const std::string given = normalized_answer(answer);
  AnswerScore best;
  for (const std::string& truth : truths) {
    const std::string wanted = normalized_answer(truth);
    if (given == wanted) best.exact_match = 1;
    best.f1 = std::max(best.f1, f1_of(words_of(given), words_of(wanted)));
  }
  return best;
}

TokenSpan best_span(std::span<const float> starts, std::span<const float> ends, std::size_t first, std::size_t last,
                    std::size_t longest) {
  TokenSpan best{first, first, starts[first] + ends[first]};
  for (std::size_t start = first; start <= last; ++start) {
    for (std::size_t end = start; end <= last && end - start < longest; ++end) {
      const float score = starts[start] + ends[end];
      if (score > best.score) best = {start, end, score};
    }
  }
  return best;
}

}  // namespace dragonn::data

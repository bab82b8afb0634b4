// SPDX-License-Identifier: MIT
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "data/loader.h"
#include "data/text/squad_file.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

const std::string kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nun\n##aff\n##able\ncafe\n,\n.\nwhere\nis\n?\nin\nparis\nit\n##s\nlong\n中\n";

/// Two paragraphs; the first has an answer behind letters of two bytes, the second does not fit a window of 10.
const std::string kQuestions = R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [
 {"context": "The Café is in Paris.", "qas": [
  {"id": "q1", "question": "Where is it?", "answers": [{"text": "in Paris", "answer_start": 12},
                                                       {"text": "Paris", "answer_start": 15}]}]},
 {"context": "It is long long long long long long. Paris, it is.", "qas": [
  {"id": "q2", "question": "Where?", "answers": [{"text": "Paris", "answer_start": 37}]}]}]}]})";

struct SquadFolder {
  SquadFolder() {
    write_text(folder / "vocab.txt", kVocabulary);
    write_text(folder / "train-v1.1.json", kQuestions);
    write_text(folder / "dev-v1.1.json", kQuestions);
  }
  DatasetSplits load(Overrides overrides = {}) const {
    overrides.emplace_back("window", std::int64_t{10});
    overrides.emplace_back("stride", std::int64_t{4});
    overrides.emplace_back("question", std::int64_t{3});
    return load_dataset("squad", folder.path(), overrides);
  }
  TemporaryFolder folder;
};

std::vector<std::int32_t> numbers(const std::vector<Piece>& pieces) {
  std::vector<std::int32_t> result;
  for (const Piece& piece : pieces) result.push_back(piece.number);
  return result;
}

TEST_SUITE("data") {
  TEST_CASE("WordPiece cuts words into the longest pieces, without case and accents") {
    const SquadFolder files;
    const WordPiece tokenizer(files.folder / "vocab.txt", true);
    CHECK(tokenizer.size() == 20);
    const std::string text = "The unaffable CAFÉ, cafe\xCC\x81 中中xyz\xE2\x80\x8B it\ts";
    const std::vector<Piece> pieces = tokenizer.encode(text);
    CHECK(numbers(pieces) == std::vector<std::int32_t>{4, 5, 6, 7, 8, 9, 8, 19, 19, 1, 16, 1});
    CHECK(text.substr(pieces[2].begin, pieces[2].end - pieces[2].begin) == "aff");
    CHECK(text.substr(pieces[4].begin, pieces[4].end - pieces[4].begin) == "CAFÉ");
    CHECK(text.substr(pieces[6].begin, pieces[6].end - pieces[6].begin) == "cafe\xCC\x81");
    CHECK(text.substr(pieces[9].begin, pieces[9].end - pieces[9].begin) == "xyz");
    CHECK(numbers(WordPiece(files.folder / "vocab.txt", false).encode("The the café")) ==
          std::vector<std::int32_t>{1, 4, 1});
    CHECK(numbers(tokenizer.encode(std::string(101, 'u'))) == std::vector<std::int32_t>{1});
    CHECK(tokenizer.encode("").empty());
  }

  TEST_CASE("letters lose case and accents in every alphabet") {
    const auto plain = [](const std::string& text) {
      std::string result;
      for (std::size_t i = 0; i < text.size();) {
        const std::uint32_t letter = without_accent(lower_case(next_character(text, i)));
        if (letter != 0) append_character(letter, result);
      }
      return result;
    };
    CHECK(plain("ÀÉÎÕÜÝŸ ÆØÞß ĀĆĎĞĤĪĴĶĹŇŌŘŠŤŪŴŶŻ ĐĦŁŒŊ") == "aeiouyy æøþß acdghijklnorstuwyz đħłœŋ");
    CHECK(plain("ΑΏ ЖЀİ ẾŪ 中한\xF0\x9F\x98\x80") == "αω жеi eu 中한\xF0\x9F\x98\x80");
  }

  TEST_CASE("a bad vocabulary is an error that names the file or the line") {
    const TemporaryFolder folder;
    const auto fault = [&](const std::string& text) {
      write_text(folder / "vocab.txt", text);
      return error_of<DataError>([&] { WordPiece(folder / "vocab.txt", true); });
    };
    CHECK(contains(fault("[PAD]\n[CLS]\n[SEP]\nthe\n"), "vocab.txt: no [UNK]: a WordPiece vocabulary has"));
    CHECK(contains(fault("[PAD]\n[UNK]\n[CLS]\n"), "vocab.txt: no [SEP]"));
    CHECK(contains(fault("[PAD]\n\n[CLS]\n"), "vocab.txt:2: an empty line"));
    CHECK(contains(fault("[PAD]\nthe\nthe\n"), "vocab.txt:3: the token 'the' is there twice"));
    CHECK(contains(fault("[PAD]\n\xFF\n"), "vocab.txt:2: byte 0xff"));
    CHECK(contains(error_of<ConfigError>([] { WordPiece("/nowhere/vocab.txt", true); }), "/nowhere/vocab.txt"));
  }

  TEST_CASE("questions become windows with the answer's first and last token") {
    const DatasetSplits splits = SquadFolder().load();
    const Dataset& train = *splits.train;
    CHECK(train.size() == 6);  // 2 of the first question, 4 of the second
    CHECK(train.sample_shape() == Shape{10});
    const Sample first = read(train, 0);
    CHECK(first.values == std::vector<float>{2, 11, 12, 16, 3, 4, 8, 12, 14, 3});
    CHECK(first.labels == std::vector<std::int32_t>{0, 0});  // the answer does not fit, nor into the next window
    CHECK(read(train, 1).labels == std::vector<std::int32_t>{0, 0});
    std::size_t found = 0;
    for (std::size_t i = 2; i < 6; ++i) {
      const Sample sample = read(train, i);
      if (sample.labels[0] == 0) continue;
      ++found;
      CHECK(sample.labels[0] == sample.labels[1]);
      CHECK(sample.values[static_cast<std::size_t>(sample.labels[0])] == 15);  // paris
    }
    CHECK(found == 1);
  }

  TEST_CASE("all windows of a question are evaluated by one rank") {
    const DatasetSplits splits = SquadFolder().load();
    const SpanQuestions& questions = *splits.test->questions();
    for (const int world : {1, 2, 3}) {
      std::size_t windows = 0;
      for (int rank = 0; rank < world; ++rank) {
        EvaluationLoader loader(splits.test, 3, rank, world);
        while (const Batch* batch = loader.next()) {
          CHECK(batch->labels.size() == 2 * batch->count);
          for (std::size_t row = 0; row < batch->count; ++row) {
            CHECK(batch->first + row == windows + row);
            if (world == 2) CHECK(questions.question_of(batch->first + row) == static_cast<std::size_t>(rank));
          }
          windows += batch->count;
        }
      }
      CHECK(windows == 6);
    }
  }

  TEST_CASE("a span of tokens becomes a span of the text, and is scored") {
    const DatasetSplits splits = SquadFolder().load({{"question", std::int64_t{3}}});
    const SpanQuestions& questions = *splits.test->questions();
    std::vector<float> starts(10, 0.0f), ends(10, 0.0f);
    starts[1] = ends[1] = 9;  // a token of the question: no answer
    starts[6] = ends[7] = 5;
    const SpanAnswer answer = questions.answer(0, starts, ends);
    CHECK(answer.text == "Café is");
    CHECK(answer.score == 10);
    CHECK(questions.score(0, "the PARIS!").exact_match == 1);
    CHECK(questions.score(0, "Café").f1 == 0);
  }

  TEST_CASE("answers are compared as SQuAD 1.1 does") {
    CHECK(normalized_answer("  The  quick, (brown) An fox-trot. ") == "quick brown foxtrot");
    const std::vector<std::string> truths{"the red house", "house"};
    CHECK(score_answer("A House", truths).exact_match == 1);
    CHECK(score_answer("red", truths).f1 == doctest::Approx(2.0 / 3));
    CHECK(score_answer("big red house", truths).f1 == doctest::Approx(0.8));
    CHECK(score_answer("tree", truths).f1 == 0);
    const std::vector<float> starts{0, 3, 1, 2}, ends{5, 0, 1, 4};
    CHECK(best_span(starts, ends, 0, 3, 10).score == 7);  // 1 to 3; not 1 to 0
    CHECK(best_span(starts, ends, 0, 3, 2).start == 3);
    CHECK(best_span(starts, ends, 1, 2, 10).end == 2);
  }

  TEST_CASE("a file of brackets is refused by its depth, and long or hostile texts are shown short") {
    const TemporaryFolder folder;
    BadSamples errors;
    const auto message = [&](const std::string& text) {
      write_text(folder / "squad.json", text);
      return error_of<DataError>([&] { read_squad_file(folder / "squad.json", errors); });
    };
    CHECK(contains(message(std::string(5'000'000, '[')), "squad.json: nested more than 32 deep"));
    const auto questions = [](const std::string& id, const std::string& answer) {
      return R"({"data": [{"paragraphs": [{"context": "c", "qas": [{"id": ")" + id +
             R"(", "question": "q", "answers": [{"text": ")" + answer + R"(", "answer_start": 0}]}]}]}]})";
    };
    for (const std::string& text : {std::string(5'000'000, 'x'), std::string("\\u001b[2J")}) {
      const std::string shown = message(questions(text, text));
      CHECK(contains(shown, "is not at character 0 of its paragraph"));
      CHECK(shown.size() < 1000);
      CHECK(!contains(shown, "\x1b"));
    }
  }

  TEST_CASE("bad questions are errors that name them, or are left out") {
    const SquadFolder files;
    const auto fault = [&](const std::string& from, const std::string& to) {
      std::string text = kQuestions;
      text.replace(text.find(from), from.size(), to);
      write_text(files.folder / "train-v1.1.json", text);
      return error_of<DataError>([&] { files.load(); });
    };
    CHECK(contains(fault("\"answer_start\": 12", "\"answer_start\": 11"),
                   "train-v1.1.json: question q1: the answer 'in Paris' is not at character 11 of its paragraph"));
    const DatasetSplits left = files.load({{"bad_samples", std::string("skip")}});
    CHECK(left.train->size() == 4);
    CHECK(contains(left.notes.at(0), "1 questions left out (data.bad_samples); the first: "));
    CHECK(contains(fault("\"answer_start\": 12", "\"answer_start\": -1"), "\"answer_start\" is no number"));
    CHECK(contains(fault("\"qas\"", "\"qaz\""), "train-v1.1.json: no \"qas\" where SQuAD 1.1 has one"));
    CHECK(contains(fault("\"context\": \"The", "\"context\": 7, \"x\": \"The"), "\"context\" is no string"));
    const std::string message = fault("\"1.1\"", "1.1.");
    CHECK(contains(message, "train-v1.1.json: byte 1"));
    CHECK(contains(message, " is not JSON"));
    CHECK(contains(fault("\"answer_start\": 12", "\"answer_start\": 1e999"), "a number that no double holds"));
    CHECK(contains(error_of<ConfigError>([&] {
                     load_dataset("squad", files.folder.path(), {{"window", std::int64_t{67}}});
                   }),
                   "data.window = 67: should be at least data.question + 4, 68"));
  }
}

}  // namespace
}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
/// The data set `squad`: questions about paragraphs as windows of tokens; labels are the first and the last token of
/// the answer.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "data/folder.h"
#include "data/sample_dataset.h"
#include "data/text/squad_file.h"
#include "data/text/vocabulary.h"

namespace dragonn::data {
namespace {

/// The shape of the windows: Devlin et al., arXiv:1810.04805, section 4.2, and their released code.
struct WindowRules {
  std::size_t window = 0;
  std::size_t stride = 0;
  std::size_t question = 0;
  std::size_t longest_answer = 0;
};

/// A window: [CLS] question [SEP] tokens of the paragraph [SEP], filled up with [PAD].
struct Window {
  std::uint32_t question = 0;
  std::uint32_t begin = 0;  ///< first token of the paragraph
  std::uint32_t count = 0;  ///< tokens of the paragraph
};

/// Windows of one file. A paragraph that does not fit is covered by several, `stride` tokens apart. A window without
/// the answer has both labels at [CLS].
class SquadDataset final : public SampleDataset, public SpanQuestions {
 public:
  SquadDataset(SquadFile file, std::size_t limit, std::shared_ptr<const WordPiece> tokenizer, const WindowRules& rules)
      : file_(std::move(file)), tokenizer_(std::move(tokenizer)), rules_(rules) {
    if (limit > 0 && limit < file_.questions.size()) file_.questions.resize(limit);
    for (const std::string& paragraph : file_.paragraphs) paragraphs_.push_back(tokenizer_->encode(paragraph));
    for (std::uint32_t number = 0; number < file_.questions.size(); ++number) append_windows(number);
    first_windows_.push_back(windows_.size());
  }

  std::size_t size() const override { return windows_.size(); }
  Shape sample_shape() const override { return {static_cast<std::int64_t>(rules_.window)}; }
  /// Returns the size of the vocabulary, for the inputs; labels are below the window's length.
  int classes() const override { return static_cast<int>(std::max(tokenizer_->size(), rules_.window)); }
  TargetKind target_kind() const override { return TargetKind::kClassPerStep; }
  const SpanQuestions* questions() const override { return this; }

  void read(std::size_t index, Rng* /*augmentation*/, std::span<float> sample,
            std::vector<std::int32_t>& labels) const override {
    const Window& window = windows_[index];
    const std::vector<std::int32_t>& question = questions_[window.question];
    auto out = sample.begin();
    const auto write = [&](std::int32_t token) { *out++ = static_cast<float>(token); };
    write(tokenizer_->classify());
    std::ranges::for_each(question, write);
    write(tokenizer_->separator());
    for (const Piece& piece : pieces(window)) write(piece.number);
    write(tokenizer_->separator());
    std::fill(out, sample.end(), static_cast<float>(tokenizer_->padding()));
    const auto [start, end] = label_of(window);
    labels.push_back(start);
    labels.push_back(end);
  }

  std::size_t question_of(std::size_t sample) const override { return windows_[sample].question; }
  SpanAnswer answer(std::size_t sample, std::span<const float> starts, std::span<const float> ends) const override {
    const Window& window = windows_[sample];
    const std::size_t first = first_token(window);
    const TokenSpan span = best_span(starts, ends, first, first + window.count - 1, rules_.longest_answer);
    const Piece& from = pieces(window)[span.start - first];
    const Piece& to = pieces(window)[span.end - first];
    return {file_.paragraphs[paragraph_of(window)].substr(from.begin, to.end - from.begin), span.score};
  }
  AnswerScore score(std::size_t question, const std::string& answer) const override {
    std::vector<std::string> truths;
    for (const SquadAnswer& truth : file_.questions[question].answers) truths.push_back(truth.text);
    return score_answer(answer, truths);
  }

 private:
  /// All windows of a question are one rank's.
  EvaluationShard shard(int rank, int world) const override {
    const EvaluationShard questions = evaluation_shard(file_.questions.size(), rank, world);
    return {first_windows_[questions.begin], first_windows_[questions.end]};
  }

  void append_windows(std::uint32_t number) {
    const SquadQuestion& question = file_.questions[number];
    std::vector<std::int32_t>& tokens = questions_.emplace_back();
    for (const Piece& piece : tokenizer_->encode(question.text)) {
      if (tokens.size() < rules_.question) tokens.push_back(piece.number);
    }
    first_windows_.push_back(windows_.size());
    const std::size_t room = rules_.window - tokens.size() - 3, length = paragraphs_[question.paragraph].size();
    for (std::size_t begin = 0; length > 0; begin += std::min(rules_.stride, room)) {
      const std::size_t count = std::min(room, length - begin);
      windows_.push_back({number, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(count)});
      if (begin + count == length) break;
    }
  }

  std::size_t paragraph_of(const Window& window) const { return file_.questions[window.question].paragraph; }
  std::size_t first_token(const Window& window) const { return questions_[window.question].size() + 2; }
  std::span<const Piece> pieces(const Window& window) const {
    return std::span(paragraphs_[paragraph_of(window)]).subspan(window.begin, window.count);
  }

  /// Returns the tokens of the window that the first true answer begins and ends in.
  std::pair<std::int32_t, std::int32_t> label_of(const Window& window) const {
    const SquadAnswer& truth = file_.questions[window.question].answers.front();
    const std::size_t truth_end = truth.begin + truth.text.size();
    const std::span<const Piece> all = paragraphs_[paragraph_of(window)];
    const auto start = std::ranges::find_if(all, [&](const Piece& piece) { return piece.end > truth.begin; });
    const auto stop = std::find_if(start, all.end(), [&](const Piece& piece) { return piece.begin >= truth_end; });
    const auto begin = static_cast<std::size_t>(start - all.begin()),
               end = static_cast<std::size_t>(stop - all.begin());
    if (begin >= end || begin < window.begin || end > std::size_t{window.begin} + window.count) return {0, 0};
    const auto place = [&](std::size_t token) {
      return static_cast<std::int32_t>(first_token(window) + token - window.begin);
    };
    return {place(begin), place(end - 1)};
  }

  SquadFile file_;
  std::shared_ptr<const WordPiece> tokenizer_;  // shared by the splits
  WindowRules rules_;
  std::vector<std::vector<Piece>> paragraphs_;
  std::vector<std::vector<std::int32_t>> questions_;
  std::vector<Window> windows_;
  std::vector<std::size_t> first_windows_;  ///< of each question, and their end
};

DatasetSplits load(const Settings& settings, const std::string& path, std::uint64_t /*seed*/) {
  require_own_folder(path, "squad");
  const std::filesystem::path folder = path;
  const auto size = [&](const char* key) { return static_cast<std::size_t>(settings.integer(key)); };
  const WindowRules rules{size("window"), size("stride"), size("question"), size("longest_answer")};
  if (rules.window < rules.question + 4) {
    throw ConfigError(
        fmt::format("data.window = {}: should be at least data.question + 4, {}: [CLS], two [SEP] and a token",
                    rules.window, rules.question + 4));
  }
  const auto tokenizer =
      std::make_shared<const WordPiece>(folder / settings.text("vocabulary"), settings.flag("lower_case"));
  BadSamples bad(settings);
  const auto make = [&](const char* file, const char* limit) {
    const std::filesystem::path place = folder / settings.text(file);
    SquadFile content = read_squad_file(place, bad);
    auto dataset = std::make_shared<const SquadDataset>(std::move(content), size(limit), tokenizer, rules);
    if (dataset->size() == 0) throw DataError(place.string() + ": no question with an answer");
    return dataset;
  };
  auto train = make("train_file", "train_limit"), test = make("test_file", "test_limit");
  return {train, test, bad.notes("questions")};
}

SettingSpecs specs() {
  return {
      SettingSpec::text("train_file", "train-v1.1.json", "training questions, in data.path"),
      SettingSpec::text("test_file", "dev-v1.1.json", "questions for evaluation, in data.path"),
      SettingSpec::text("vocabulary", "vocab.txt", "WordPiece vocabulary in data.path, a token in each line"),
      SettingSpec::flag("lower_case", true, "true: the vocabulary is uncased"),
      SettingSpec::integer("window", 384, "tokens of a sample: question and a part of the paragraph", 5, 65536),
      SettingSpec::integer("stride", 128, "tokens from one window of a long paragraph to the next", 1, 65536),
      SettingSpec::integer("question", 64, "tokens of the longest question; longer ones are cut", 1, 65536),
      SettingSpec::integer("longest_answer", 30, "tokens of the longest answer in evaluation", 1, 65536),
      bad_samples_setting("questions whose answer is missing or not where the file says"),
      SettingSpec::integer("train_limit", 0, "use only the first N training questions; 0: all", 0),
      SettingSpec::integer("test_limit", 0, "use only the first N test questions; 0: all", 0),
  };
}

const Registration<DatasetEntry> registration{{{"squad", "SQuAD 1.1: questions whose answers are spans of a paragraph",
                                                "Rajpurkar et al., arXiv:1606.05250", specs()},
                                               load}};

}  // namespace
}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include "trainer/metrics/quality.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "data/speech/transcripts.h"

namespace dragonn::trainer {
namespace {

constexpr std::size_t kLoss = 0, kCount = 1, kFirst = 2;  // those from kFirst on depend on the kind of data
// Result for one class per sample:
constexpr std::size_t kCorrect = kFirst;
// Results for sequences of classes:
constexpr std::size_t kCharacterErrors = kFirst, kCharacters = kFirst + 1, kWordErrors = kFirst + 2,
                      kWords = kFirst + 3;
// Results for questions:
constexpr std::size_t kExactMatches = kFirst, kF1 = kFirst + 1, kQuestions = kFirst + 2;

}  // namespace

bool larger_is_better(const std::string& name) {
  return name == "accuracy" || name == "f1" || name == "exact_match" || name.starts_with("precision");
}

std::string describe(const Quality& quality) {
  std::string words = quality.name;
  std::ranges::replace(words, '_', ' ');
  return fmt::format("{} {}", words, describe_value(quality));
}

std::string describe_value(const Quality& quality) {
  if (quality.name == "perplexity") return fmt::format("{:.2f}", quality.value);
  return fmt::format("{:.2f} %", 100 * quality.value);
}

std::vector<std::int32_t> greedy_labels(std::span<const float> logits, std::size_t classes) {
  std::vector<std::int32_t> labels;
  std::int32_t previous = data::Alphabet::kBlank;
  for (std::size_t begin = 0; begin < logits.size(); begin += classes) {
    const std::span<const float> step = logits.subspan(begin, classes);
    const auto label = static_cast<std::int32_t>(std::ranges::max_element(step) - step.begin());
    if (label != previous && label != data::Alphabet::kBlank) labels.push_back(label);
    previous = label;
  }
  return labels;
}

bool QualitySums::reads_outputs() const {
  const TargetKind kind = dataset_.target_kind();
  return kind != TargetKind::kClass && (kind != TargetKind::kClassPerStep || dataset_.questions() != nullptr);
}

void QualitySums::add(const Outputs& outputs, const data::Batch& batch, const layers::LossResult& loss) {
  sums_[kLoss] += loss.loss_sum;
  sums_[kCount] += static_cast<double>(loss.count);
  switch (dataset_.target_kind()) {
    case TargetKind::kClass:
      sums_[kCorrect] += static_cast<double>(loss.correct);
      break;
    case TargetKind::kClassPerStep:
      if (dataset_.questions() != nullptr) add_answers(logits_.of(outputs.logits), batch);
      break;
    case TargetKind::kClassSet:
      add_precision(logits_.of(outputs.logits), batch);
      break;
    case TargetKind::kClassSequence:
      add_texts(outputs, logits_.of(outputs.logits), batch);
      break;
  }
}

void QualitySums::add_precision(std::span<const float> logits, const data::Batch& batch) {
  const std::size_t classes = logits.size() / batch.count;
  const std::size_t largest = std::min(classes, kPrecisionAt.back());
  std::vector<std::int32_t> order(classes);
  for (std::size_t row = 0; row < batch.count; ++row) {
    const std::span<const float> scores = logits.subspan(row * classes, classes);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(largest), [&](auto a, auto b) {
      const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    });
    const auto labels = std::span(batch.labels)
                            .subspan(static_cast<std::size_t>(batch.offsets[row]),
                                     static_cast<std::size_t>(batch.offsets[row + 1] - batch.offsets[row]));
    std::size_t hits = 0;
    for (std::size_t place = 0, at = 0; place < largest; ++place) {
      hits += std::ranges::binary_search(labels, order[place]) ? 1 : 0;
      while (at < kPrecisionAt.size() && std::min(kPrecisionAt[at], largest) == place + 1) {
        sums_[kFirst + at] += static_cast<double>(hits) / static_cast<double>(kPrecisionAt[at]);
        ++at;
      }
    }
  }
}

void QualitySums::add_texts(const Outputs& outputs, std::span<const float> logits, const data::Batch& batch) {
  const std::size_t row_size = logits.size() / batch.count;
  const auto classes = static_cast<std::size_t>(outputs.shape.extents().back());
  for (std::size_t row = 0; row < batch.count; ++row) {
    const std::size_t steps =
        outputs.lengths.empty() ? row_size / classes : static_cast<std::size_t>(outputs.lengths[row]);
    const auto begin = static_cast<std::size_t>(batch.offsets[row]),
               end = static_cast<std::size_t>(batch.offsets[row + 1]);
    const std::string truth = dataset_.text_of(std::span(batch.labels).subspan(begin, end - begin));
    const std::string recognized =
        dataset_.text_of(greedy_labels(logits.subspan(row * row_size, steps * classes), classes));
    const data::TextErrors characters = data::character_errors(truth, recognized);
    const data::TextErrors words = data::word_errors(truth, recognized);
    sums_[kCharacterErrors] += static_cast<double>(characters.errors);
    sums_[kCharacters] += static_cast<double>(characters.units);
    sums_[kWordErrors] += static_cast<double>(words.errors);
    sums_[kWords] += static_cast<double>(words.units);
  }
}

void QualitySums::add_answers(std::span<const float> logits, const data::Batch& batch) {
  const data::SpanQuestions& questions = *dataset_.questions();
  const std::size_t steps = logits.size() / batch.count / 2;
  for (std::size_t row = 0; row < batch.count; ++row) {
    const std::size_t sample = batch.first + row, question = questions.question_of(sample);
    const auto starts = logits.subspan(2 * row * steps, steps), ends = logits.subspan((2 * row + 1) * steps, steps);
    data::SpanAnswer answer = questions.answer(sample, starts, ends);
    if (question_ != question) {
      finish_question();
      question_ = question;
      answer_ = std::move(answer);
    } else if (answer.score > answer_.score) {
      answer_ = std::move(answer);
    }
  }
}

void QualitySums::finish_question() {
  if (!question_) return;
  const data::AnswerScore score = dataset_.questions()->score(*question_, answer_.text);
  sums_[kExactMatches] += score.exact_match;
  sums_[kF1] += score.f1;
  sums_[kQuestions] += 1;
  question_.reset();
}

std::vector<Quality> QualitySums::qualities() const {
  const double count = std::max(sums_[kCount], 1.0);
  switch (dataset_.target_kind()) {
    case TargetKind::kClass:
      return {{"accuracy", sums_[kCorrect] / count}};
    case TargetKind::kClassPerStep:
      if (dataset_.questions() != nullptr) {
        const double questions = std::max(sums_[kQuestions], 1.0);
        return {{"f1", sums_[kF1] / questions}, {"exact_match", sums_[kExactMatches] / questions}};
      }
      return {{"perplexity", std::exp(loss())}};
    case TargetKind::kClassSet: {
      std::vector<Quality> result;
      for (std::size_t at = 0; at < kPrecisionAt.size(); ++at) {
        result.push_back({fmt::format("precision_at_{}", kPrecisionAt[at]), sums_[kFirst + at] / count});
      }
      return result;
    }
    case TargetKind::kClassSequence:  // if there is no unit, every error counts as one
      return {{"character_error_rate", sums_[kCharacterErrors] / std::max(sums_[kCharacters], 1.0)},
              {"word_error_rate", sums_[kWordErrors] / std::max(sums_[kWords], 1.0)}};
  }
  return {};
}

}  // namespace dragonn::trainer

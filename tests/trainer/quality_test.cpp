// SPDX-License-Identifier: MIT
#include "trainer/metrics/quality.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace dragonn::trainer {
namespace {

/// Data of one kind, of which nothing is read. Label i is the i-th letter; 27 is a blank.
class Kind final : public data::Dataset {
 public:
  explicit Kind(TargetKind kind) : kind_(kind) {}
  std::size_t size() const override { return 0; }
  Shape sample_shape() const override { return {1}; }
  int classes() const override { return 28; }
  TargetKind target_kind() const override { return kind_; }
  std::string text_of(std::span<const std::int32_t> labels) const override {
    std::string text;
    for (const std::int32_t label : labels) text += label == 27 ? ' ' : static_cast<char>('A' + label - 1);
    return text;
  }
  std::unique_ptr<data::BatchSource> training(const data::BatchRules&) const override { return nullptr; }
  std::unique_ptr<data::BatchSource> evaluation(std::size_t, int, int) const override { return nullptr; }

 private:
  TargetKind kind_;
};

/// Two questions, of two samples and one. The answer is the number of the first and of the last token.
class Questions final : public data::Dataset, public data::SpanQuestions {
 public:
  std::size_t size() const override { return 3; }
  Shape sample_shape() const override { return {4}; }
  int classes() const override { return 9; }
  TargetKind target_kind() const override { return TargetKind::kClassPerStep; }
  const data::SpanQuestions* questions() const override { return this; }
  std::unique_ptr<data::BatchSource> training(const data::BatchRules&) const override { return nullptr; }
  std::unique_ptr<data::BatchSource> evaluation(std::size_t, int, int) const override { return nullptr; }

  std::size_t question_of(std::size_t sample) const override { return sample / 2; }
  data::SpanAnswer answer(std::size_t sample, std::span<const float> starts,
                          std::span<const float> ends) const override {
    return {std::to_string(sample), starts[0] + ends[3]};
  }
  data::AnswerScore score(std::size_t question, const std::string& answer) const override {
    return {answer == "1" ? 1.0 : 0.0, question == 0 ? 1.0 : 0.5};
  }
};

data::Batch batch_of(std::vector<std::vector<std::int32_t>> lists) {
  data::Batch batch;
  batch.count = lists.size();
  batch.offsets.push_back(0);
  for (const std::vector<std::int32_t>& list : lists) {
    batch.labels.insert(batch.labels.end(), list.begin(), list.end());
    batch.offsets.push_back(static_cast<std::int32_t>(batch.labels.size()));
  }
  return batch;
}

/// Returns logits, one time step after the other, whose largest are these labels.
std::vector<float> logits_of(const std::vector<std::int32_t>& labels, std::size_t classes) {
  std::vector<float> logits(labels.size() * classes, -1.0f);
  for (std::size_t step = 0; step < labels.size(); ++step) {
    logits[step * classes + static_cast<std::size_t>(labels[step])] = 1.0f;
  }
  return logits;
}

View<const float> view(const std::vector<float>& values) {
  return View<const float>(std::span<const float>(values));
}

TEST_SUITE("trainer") {
  TEST_CASE("quality: accuracy is the share of correct samples, perplexity e to the mean loss") {
    const Kind images(TargetKind::kClass), text(TargetKind::kClassPerStep);
    QualitySums accuracy(images), perplexity(text);
    for (QualitySums* sums : {&accuracy, &perplexity}) {
      sums->add({}, {}, {.loss_sum = 6, .correct = 3, .count = 4});
      sums->add({}, {}, {.loss_sum = 2, .correct = 0, .count = 4});
      CHECK_FALSE(sums->reads_outputs());
      CHECK(sums->loss() == 1.0);
      CHECK(sums->count() == 8);
    }
    CHECK(accuracy.qualities().front().name == "accuracy");
    CHECK(accuracy.qualities().front().value == 0.375);
    CHECK(perplexity.qualities().front().value == std::exp(1.0));
    CHECK(describe(accuracy.qualities().front()) == "accuracy 37.50 %");
    CHECK(describe(perplexity.qualities().front()) == "perplexity 2.72");
    CHECK(larger_is_better("accuracy"));
    CHECK(larger_is_better("precision_at_1"));
    CHECK_FALSE(larger_is_better("perplexity"));
    CHECK_FALSE(larger_is_better("character_error_rate"));
  }

  TEST_CASE("quality: precision at k is the share of a point's labels among its k largest logits") {
    const Kind points(TargetKind::kClassSet);
    QualitySums sums(points);
    CHECK(sums.reads_outputs());
    // By falling logit, equal ones by number: 3 5 0 1 2 4, and 0 1 2 3 4 5.
    const std::vector<float> logits{4, 3, 2, 9, 1, 5, 0, 0, 0, 0, 0, 0};
    sums.add({view(logits), Shape{2, 6}, {}}, batch_of({{0, 2, 3}, {}}), {.loss_sum = 1, .count = 2});
    const std::vector<Quality> qualities = sums.qualities();
    REQUIRE(qualities.size() == 3);
    CHECK(qualities[0].name == "precision_at_1");
    CHECK(qualities[0].value == doctest::Approx(1.0 / 2));
    CHECK(qualities[1].value == doctest::Approx(2.0 / 3 / 2));
    CHECK(qualities[2].value == doctest::Approx(3.0 / 5 / 2));
  }

  TEST_CASE("quality: precision among fewer classes than k counts what there is") {
    const Kind points(TargetKind::kClassSet);
    QualitySums sums(points);
    const std::vector<float> logits{1, 2};
    sums.add({view(logits), Shape{1, 2}, {}}, batch_of({{1}}), {.loss_sum = 1, .count = 1});
    CHECK(sums.qualities()[0].value == 1.0);
    CHECK(sums.qualities()[1].value == doctest::Approx(1.0 / 3));
    CHECK(sums.qualities()[2].value == doctest::Approx(1.0 / 5));
  }

  TEST_CASE("quality: a question's answer is the best one among its samples, over batches") {
    const Questions questions;
    QualitySums sums(questions);
    CHECK(sums.reads_outputs());
    std::vector<float> logits(24, 0.0f);
    logits[8] = 1;   // sample 1 begins better than sample 0
    logits[15] = 1;  // and ends better
    data::Batch first, second;
    first.count = 1;
    const std::vector<float> head(logits.begin(), logits.begin() + 8), tail(logits.begin() + 8, logits.end());
    sums.add({view(head), Shape{1, 2, 4}, {}}, first, {.count = 2});
    second.first = 1;
    second.count = 2;
    sums.add({view(tail), Shape{2, 2, 4}, {}}, second, {.count = 4});
    CHECK(sums.sums().size() == 6);
    const std::vector<Quality> qualities = sums.qualities();
    CHECK(qualities[0].name == "f1");
    CHECK(qualities[0].value == 0.75);
    CHECK(qualities[1].name == "exact_match");
    CHECK(qualities[1].value == 0.5);
    CHECK(larger_is_better("f1"));
  }

  TEST_CASE("quality: the greedy reading drops repeats, then blanks") {
    CHECK(greedy_labels(logits_of({1, 1, 0, 1, 2, 2, 0, 0, 3}, 4), 4) == std::vector<std::int32_t>{1, 1, 2, 3});
    CHECK(greedy_labels(logits_of({0, 0}, 4), 4).empty());
    CHECK(greedy_labels({}, 4).empty());
  }

  TEST_CASE("quality: error rates are of whole splits, over the valid time steps alone") {
    const Kind speech(TargetKind::kClassSequence);
    QualitySums sums(speech);
    // Recognized: "AB", where "AC D" was said; the second row ends after 1 step of 4, "A", as said.
    std::vector<float> logits = logits_of({1, 0, 2, 2, 1, 5, 6, 7}, 28);
    const std::vector<std::int32_t> lengths{4, 1};
    sums.add({view(logits), Shape{2, 4, 28}, lengths}, batch_of({{1, 3, 27, 4}, {1}}), {.loss_sum = 3, .count = 2});
    const std::vector<Quality> qualities = sums.qualities();
    CHECK(qualities[0].name == "character_error_rate");
    CHECK(qualities[0].value == doctest::Approx(3.0 / 5));  // one replaced, two missing
    CHECK(qualities[1].name == "word_error_rate");
    CHECK(qualities[1].value == doctest::Approx(2.0 / 3));
  }
}

}  // namespace
}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Dataset: one split of a data set. DatasetSplits: the two splits that a run uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/registry.h"
#include "core/shape.h"
#include "core/targets.h"
#include "data/batch.h"
#include "data/sampler.h"

namespace dragonn::data {

/// Agreement of an answer with the true ones, each in [0, 1].
struct AnswerScore {
  double exact_match = 0;
  double f1 = 0;
};

/// An answer that a network gives: a part of a text, and how sure it is.
struct SpanAnswer {
  std::string text;
  float score = 0;
};

/// Questions whose answers are spans of a text. A question has one or more samples, which come one after the other in
/// evaluation and on one rank. A sample has two labels: the time steps that the answer begins and ends at.
class SpanQuestions {
 public:
  virtual ~SpanQuestions() = default;
  virtual std::size_t question_of(std::size_t sample) const = 0;
  /// Returns the best answer within one sample. @param starts the logit of each time step as the answer's beginning.
  /// @param ends likewise.
  virtual SpanAnswer answer(std::size_t sample, std::span<const float> starts, std::span<const float> ends) const = 0;
  virtual AnswerScore score(std::size_t question, const std::string& answer) const = 0;
};

/// One split of a data set. It is read only after construction, so loader threads share one object. It outlives its
/// sources.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;  ///< number of samples; of tokens for a running text
  /// Returns the shape of a sample: [height, width, channels] for images, [features] for points, [steps] for text,
  /// [steps, features] for speech, with the steps of the longest sample.
  virtual Shape sample_shape() const = 0;
  /// Returns the number of classes; labels are in [0, classes()).
  virtual int classes() const = 0;
  virtual TargetKind target_kind() const { return TargetKind::kClass; }
  /// Returns the text that labels stand for, if they are one (TargetKind::kClassSequence).
  virtual std::string text_of(std::span<const std::int32_t> /*labels*/) const { return {}; }

  /// Returns the questions that evaluation asks, null for data of another kind. The samples of a batch are then those
  /// from Batch::first on.
  virtual const SpanQuestions* questions() const { return nullptr; }

  /// Makes the source of training batches. @throws ConfigError if there are too few samples for these rules.
  virtual std::unique_ptr<BatchSource> training(const BatchRules& rules) const = 0;
  /// Makes the source of evaluation batches: every sample once over all ranks, always in the same order, `batch` at a
  /// time.
  virtual std::unique_ptr<BatchSource> evaluation(std::size_t batch, int rank, int world) const = 0;
};

struct DatasetSplits {
  std::shared_ptr<const Dataset> train;  // shared: by the local workers of a process
  std::shared_ptr<const Dataset> test;
  std::vector<std::string> notes = {};     ///< notes for the log (samples left out)
  std::vector<std::string> warnings = {};  ///< of settings that are valid, and seldom meant
};

struct DatasetEntry : RegistryEntry {
  static constexpr const char* kKind = "dataset";
  /// Loads both splits. @throws ConfigError (missing path), DataError (damaged file, with file and offset).
  std::function<DatasetSplits(const Settings&, const std::string& path, std::uint64_t seed)> load;
  bool needs_path = true;   ///< data.path must name a folder
  Shape sample_shape = {};  ///< of the files, if the name alone fixes it, else rank 0
  int classes = 0;          ///< if the name alone fixes them, else 0

  /// Returns the shape of a sample, if name and settings fix it, else rank 0: images may be resized.
  Shape shape(const Settings& values) const {
    const std::int64_t side = values.contains("resize") ? values.integer("resize") : 0;
    return side == 0 || sample_shape.rank() == 0 ? sample_shape : Shape{side, side, sample_shape[2]};
  }
};

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
/// Dataset: one split of a data set, and the pair of splits that a run uses.
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

/// How one rank's training batches are drawn.
struct BatchRules {
  std::size_t batch = 32;  ///< samples per rank and step
  std::uint64_t seed = 1;
  int rank = 0;
  int world = 1;
  Remainder remainder = Remainder::kDrop;
};

/// Read only after construction, so loader threads share one object. Outlives its sources.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;  ///< samples; of a running text, tokens
  /// Of images [height, width, channels], of points [features], of text [steps], of speech [steps, features] with the
  /// steps of the longest sample.
  virtual Shape sample_shape() const = 0;
  /// Labels are in [0, classes()).
  virtual int classes() const = 0;
  virtual TargetKind target_kind() const { return TargetKind::kClass; }
  /// What labels say, where they are a text (TargetKind::kClassSequence).
  virtual std::string text_of(std::span<const std::int32_t> /*labels*/) const { return {}; }

  /// @throws ConfigError if there are too few samples for these rules.
  virtual std::unique_ptr<BatchSource> training(const BatchRules& rules) const = 0;
  /// Every sample once over all ranks, always in the same order, `batch` at a time.
  virtual std::unique_ptr<BatchSource> evaluation(std::size_t batch, int rank, int world) const = 0;
};

struct DatasetSplits {
  std::shared_ptr<const Dataset> train;  // shared: by the local workers of a process
  std::shared_ptr<const Dataset> test;
  std::vector<std::string> notes = {};  ///< what a person should know (samples left out)
};

struct DatasetEntry : RegistryEntry {
  static constexpr const char* kKind = "dataset";
  bool needs_path = true;  ///< data.path must name a folder
  Shape sample_shape;      ///< where the name alone fixes it, else rank 0
  int classes = 0;         ///< likewise, else 0
  /// @throws ConfigError (missing path), DataError (damaged file, with file and offset).
  std::function<DatasetSplits(const Settings&, const std::string& path, std::uint64_t seed)> load;
};

}  // namespace dragonn::data

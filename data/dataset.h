// SPDX-License-Identifier: MIT
/// Dataset: labelled samples that can be read in any order, and the pair of splits that a run uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/registry.h"
#include "core/rng.h"
#include "core/shape.h"

namespace dragonn::data {

/// Read only after construction, so loader threads share one object.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;
  virtual Shape sample_shape() const = 0;  ///< [height, width, channels]
  virtual int classes() const = 0;
  /// Writes one normalized sample (sample_shape().size() floats) and returns its label in [0, classes()).
  /// `augmentation` is the sample's own stream, null for evaluation: equal streams give equal pixels.
  virtual std::int32_t read(std::size_t index, Rng* augmentation, std::span<float> sample) const = 0;
};

struct DatasetSplits {
  std::shared_ptr<const Dataset> train;  // shared: by the local workers of a process
  std::shared_ptr<const Dataset> test;
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

// SPDX-License-Identifier: MIT
/// The sparse text format of the Extreme Classification Repository.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/folder.h"

namespace dragonn::data {

struct SparseFeature {
  std::uint32_t index = 0;
  float value = 0;
};

/// Points with sparse features and any number of labels each, stored row by row.
class SparsePoints {
 public:
  std::size_t size() const { return feature_ends_.size(); }
  std::span<const SparseFeature> features(std::size_t point) const { return row(features_, feature_ends_, point); }
  std::span<const std::int32_t> labels(std::size_t point) const { return row(labels_, label_ends_, point); }
  std::size_t feature_count() const { return feature_count_; }  ///< size of the space of indices
  int label_count() const { return label_count_; }

  /// Forgets all but the first `limit` points; 0 keeps all.
  void keep_first(std::size_t limit);

 private:
  friend SparsePoints read_xc_file(const std::filesystem::path& path, BadSamples& bad);

  template <class T>
  static std::span<const T> row(const std::vector<T>& values, const std::vector<std::size_t>& ends, std::size_t point) {
    const std::size_t begin = point == 0 ? 0 : ends[point - 1];
    return std::span<const T>(values).subspan(begin, ends[point] - begin);
  }

  std::vector<SparseFeature> features_;
  std::vector<std::int32_t> labels_;
  std::vector<std::size_t> feature_ends_;
  std::vector<std::size_t> label_ends_;
  std::size_t feature_count_ = 0;
  int label_count_ = 0;
};

/// Reads a file. First line: `points features labels`; then per point `label,label,... index:value index:value ...`;
/// either list may be empty. @throws ConfigError for a missing file, DataError naming file and line: a malformed
/// number, an index or label out of the header's range, a value that is not finite, a line too many or too few. @param
/// bad leaves out points whose line is bad.
SparsePoints read_xc_file(const std::filesystem::path& path, BadSamples& bad);

}  // namespace dragonn::data

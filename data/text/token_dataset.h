// SPDX-License-Identifier: MIT
/// TokenDataset: a running text, of which each next token is predicted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace dragonn::data {

/// Cuts the text into as many strips as there are rows in all ranks' batches. Row i of every batch is a window of strip
/// i, and the next step's batch continues it (truncated backpropagation through time). The label of a token is the next
/// one.
///
/// Training drops what does not fill a window on every strip. An epoch that goes on with another number of strips cuts
/// what they left, in the order of the text, into new strips. Evaluation predicts every token but the first once, for
/// any number of ranks and rows: strips differ by one token at most, and steps behind the end of a strip are ignored.
class TokenDataset final : public Dataset {
 public:
  /// @param tokens in [0, vocabulary). @param window time steps of a batch.
  TokenDataset(std::vector<std::int32_t> tokens, int vocabulary, std::int64_t window);

  std::size_t size() const override { return tokens_.size(); }
  Shape sample_shape() const override { return {window_}; }
  int classes() const override { return vocabulary_; }
  TargetKind target_kind() const override { return TargetKind::kClassPerStep; }
  std::unique_ptr<BatchSource> training(const BatchRules& rules) const override;
  std::unique_ptr<BatchSource> evaluation(std::size_t batch, int rank, int world) const override;

 private:
  std::vector<std::int32_t> tokens_;
  int vocabulary_;
  std::int64_t window_;
};

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
/// SpeechDataset: utterances and their texts, as log spectrograms in batches of similar length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/speech/audio.h"
#include "data/speech/transcripts.h"

namespace dragonn::data {

struct Speech {
  Samples samples;
  std::vector<std::int32_t> labels;  ///< as the alphabet numbers them
};

/// Utterances in batches of similar length, padded with zeros to a multiple of `frame_multiple` frames; all ranks'
/// batches of one step have the same number of frames. In training every epoch leaves out other utterances (those that
/// fill no step), and the steps are shuffled; evaluation goes from short to long.
class SpeechDataset final : public Dataset {
 public:
  /// @param spectrogram shared by the splits.  @param frame_multiple at least 1: a network makes a plan for each number
  /// of frames.
  SpeechDataset(std::vector<Speech> utterances, Alphabet alphabet, std::shared_ptr<const Spectrogram> spectrogram,
                std::size_t frame_multiple);

  std::size_t size() const override { return utterances_.size(); }
  Shape sample_shape() const override;  ///< [frames of the longest utterance, bins]
  int classes() const override { return alphabet_.labels(); }
  TargetKind target_kind() const override { return TargetKind::kClassSequence; }
  std::string text_of(std::span<const std::int32_t> labels) const override;
  std::unique_ptr<BatchSource> training(const BatchRules& rules) const override;
  std::unique_ptr<BatchSource> evaluation(std::size_t batch, int rank, int world) const override;

  const Speech& utterance(std::size_t index) const { return utterances_[index]; }
  const Spectrogram& spectrogram() const { return *spectrogram_; }
  std::size_t frames(std::size_t index) const { return spectrogram_->frames(utterances_[index].samples.size()); }
  /// Returns the frames of a batch whose longest utterance has `frames`.
  std::size_t padded(std::size_t frames) const;
  /// Sorts utterances by length, equal ones by number.
  void sort_by_length(std::vector<std::uint32_t>& indices) const;

 private:
  std::vector<Speech> utterances_;
  Alphabet alphabet_;
  std::shared_ptr<const Spectrogram> spectrogram_;
  std::size_t frame_multiple_;
};

}  // namespace dragonn::data
